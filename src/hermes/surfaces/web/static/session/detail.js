// The details of one row or event: what is recorded of it, with buttons to copy.
import { html, useEffect, useState } from "../vendor/preact.js";
import { clock, count, duration, money } from "../format.js";

const pretty = (value) => {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  const text = value.trim();
  if (text.startsWith("{") || text.startsWith("[")) {
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      return value;
    }
  }
  return value;
};

export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`<button class="small" onClick=${copy}>${done ? "Copied" : label}</button>`;
}

function Part({ name, value }) {
  if (value == null || value === "" || (Array.isArray(value) && !value.length)) return null;
  const text = pretty(value);
  return html`<section class="part"><header><h3>${name}</h3><${Copy} text=${text} /></header><pre tabindex="0">${text}</pre></section>`;
}

const partsOf = (event) => {
  const body = event.body;
  if (!body || typeof body !== "object") return [["Recorded", body]];
  const { reply, args, result, message, decisions, error_message: error, ...rest } = body;
  const parts = [];
  if (message) parts.push(["Message", typeof message.content === "string" ? message.content : message]);
  if (reply) parts.push(["Answer", reply.content], ["Reasoning", reply.reasoning], ["Tool calls", reply.tool_calls]);
  parts.push(["Error", error ?? body.error], ["Arguments", args], ["Result", result], ["Decisions of plugins", decisions]);
  delete rest.error;
  if (Object.keys(rest).length) parts.push(["Recorded with it", rest]);
  return parts;
};

function Facts({ row, event }) {
  const facts = [];
  const add = (name, value) => value != null && value !== "" && facts.push([name, value]);
  if (row) {
    add("State", { unknown: "outcome unknown" }[row.state] ?? row.state);
    if (row.start) add("Started", clock(row.start));
    if (row.end != null && row.start != null) add("Took", duration(row.end - row.start));
    if (row.first != null) add("First token", `after ${duration(row.first)}`);
    if (row.read != null) add("Tokens", `${count(row.read)} in${row.cached ? ` (${count(row.cached)} cached)` : ""}, ${count(row.written)} out`);
    add("Cost", money(row.cost));
  }
  if (event) {
    add("Event", `${event.seq} · ${event.kind}${event.key ? ` · ${event.key}` : ""}`);
    add("Effect", event.effect);
    add("Recorded", clock(event.at));
  }
  return html`<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// `load(row)` gives the event, or a promise of it.
export function Detail({ row, load, wholeAddress, onClose, children }) {
  const [state, setState] = useState({});
  useEffect(() => {
    let current = true;
    setState({});
    if (row.seq) {
      Promise.resolve(load(row)).then(
        (event) => current && setState({ event }),
        (error) => current && setState({ error: error.message }),
      );
    }
    return () => (current = false);
  }, [row.key, row.seq, row.state]);
  const event = state.event;
  return html`<aside class="detail" aria-label="Details">
    <header><span class=${`chip ${row.kind ?? ""}`}>${row.kind ?? "event"}</span><h2>${row.label || row.id}</h2>
      <button class="small close" aria-label="Close details" title="Close (Esc)" onClick=${onClose}>✕</button></header>
    <div class="detail-body">
      <${Facts} row=${row.kind ? row : null} event=${event} />
      ${row.state === "unknown" ? html`<p class="problem">The process ended while this call was running: it may or may not have taken effect.</p>` : null}
      ${row.error && row.state !== "ok" ? html`<${Part} name="Error" value=${row.error} />` : null}
      ${children}
      ${row.tries ? html`<section class="part"><header><h3>Attempts</h3></header><ol class="tries">${row.tries.map((one) => html`<li class=${`is-${one.state}`}><b>${one.label}</b> ${duration(one.end - one.start)} ${one.error || "ok"}</li>`)}</ol></section>` : null}
      ${row.kind && !row.seq ? html`<${Part} name="Text" value=${row.text} />` : null}
      ${state.error ? html`<p class="problem" role="alert">${state.error}</p>` : null}
      ${row.seq && !event && !state.error ? html`<p class="empty">Loading…</p>` : null}
      ${event ? partsOf(event).filter(([name]) => !(name === "Error" && row.error)).map(([name, value]) => html`<${Part} name=${name} value=${value} />`) : null}
      ${event?.left_out && wholeAddress ? html`<p><a href=${wholeAddress(row)} download>Download all of it</a> (${count(event.left_out)} characters are not shown)</p>` : null}
      ${event ? html`<p class="raw"><${Copy} text=${JSON.stringify(event, null, 2)} label="Copy as JSON" /></p>` : null}
    </div>
  </aside>`;
}
