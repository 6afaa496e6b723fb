// Two runs, step by step.
import { html, useEffect, useState } from "../vendor/preact.js";
import { address, get, useData } from "../api.js";
import { count, duration, money } from "../format.js";

const TOTALS = [["turns", "Turns", count], ["model_steps", "Model steps", count], ["tool_calls", "Tool calls", count], ["input_tokens", "Tokens in", count], ["output_tokens", "Tokens out", count], ["cost_usd", "Cost", (usd) => money(usd) || "–"], ["seconds", "Time", duration]];

const look = (line) => ({ "+": "added", "-": "removed" })[line.trim()[0]] ?? "";

function Result({ a, b, go }) {
  const { data, error } = useData(`/api/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
  if (error) return html`<p class="problem">${error}</p>`;
  if (!data) return html`<p class="empty">Comparing…</p>`;
  const link = (id) => html`<a href=${address(`/sessions/${encodeURIComponent(id)}`)} onClick=${(event) => go(event, `/sessions/${encodeURIComponent(id)}`)}>${id}</a>`;
  return html`<div class="scroll"><table class="compared"><thead><tr><th></th><th class="n">${link(data.a)}</th><th class="n">${link(data.b)}</th></tr></thead>
      <tbody>${TOTALS.map(([name, words, shown]) => html`<tr class=${data.totals[0][name] === data.totals[1][name] ? "" : "differs"}><td>${words}</td><td class="n">${shown(data.totals[0][name])}</td><td class="n">${shown(data.totals[1][name])}</td></tr>`)}</tbody></table></div>
    <h2>${data.count ? `${count(data.count)} differences` : "No differences"}</h2>
    ${data.differences.map((one) => html`<section class="diff"><h3>${one.place}</h3><pre>${one.lines.map((line) => html`<span class=${look(line)}>${line}\n</span>`)}</pre></section>`)}
    ${data.count > data.differences.length ? html`<p class="sub">${count(data.count - data.differences.length)} more are not shown; <code>hermes trace diff</code> has them all.</p>` : null}`;
}

export function View({ go, navigate, query }) {
  const [a, setA] = useState(query.get("a") ?? "");
  const [b, setB] = useState(query.get("b") ?? "");
  const [sessions, setSessions] = useState([]);
  useEffect(() => { get("/api/sessions?limit=200").then(setSessions, () => undefined); }, []);
  const submit = (event) => {
    event.preventDefault();
    navigate(`/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
  };
  const field = (name, value, set) => html`<label>${name} <input list="sessions" value=${value} placeholder="session id" onInput=${(event) => set(event.target.value)} /></label>`;
  return html`<main class="narrow"><h1>Compare two runs</h1>
    <form class="filters" onSubmit=${submit}>${field("A", a, setA)} ${field("B", b, setB)}<button class="primary" disabled=${!a || !b}>Compare</button></form>
    <datalist id="sessions">${sessions.map((line) => html`<option value=${line.id}>${line.title}</option>`)}</datalist>
    ${query.get("a") && query.get("b") ? html`<${Result} key=${location.search} a=${query.get("a")} b=${query.get("b")} go=${go} />` : html`<p class="empty">Pick two sessions here, or tick two in the list.</p>`}
  </main>`;
}
