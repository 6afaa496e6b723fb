// Small parts that several views use.
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { compact, moment, money, plural } from "./format.js";

export function State({ state }) {
  return html`<span class=${`state ${state.replace(" ", "-")}`}><i></i>${state}</span>`;
}

export function Figures({ line, children }) {
  return html`<div class="figures">
    <${State} state=${line.state} />
    <span>${line.model || line.platform}</span>
    <span>${plural(line.turns ?? 0, "turn")}</span>
    <span>${plural(line.calls ?? 0, "model call")}</span>
    ${line.failed ? html`<span class="bad">${line.failed} failed</span>` : null}
    ${line.children ? html`<span>${line.children === 1 ? "1 child" : `${line.children} children`}</span>` : null}
    <span>${compact(line.read ?? 0)} in, ${compact(line.written ?? 0)} out</span>
    ${line.cost == null ? null : html`<span>${money(line.cost)}</span>`}
    <time>${moment(line.created)}</time>
    ${children}
  </div>`;
}

export function Composer({ onSend, placeholder, disabled, label = "Send" }) {
  const [text, setText] = useState("");
  const area = useRef(null);
  const send = async (event) => {
    event?.preventDefault();
    if (!text.trim() || disabled) return;
    if ((await onSend(text)) !== false) setText("");
  };
  const keys = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  };
  useEffect(() => {
    area.current.style.height = "";
    if (!text) return;
    area.current.style.height = `${Math.min(area.current.scrollHeight + 2, 200)}px`;
  }, [text]);
  return html`<form class="composer" onSubmit=${send}>
    <textarea ref=${area} rows="1" value=${text} placeholder=${placeholder} aria-label=${placeholder} onInput=${(event) => setText(event.target.value)} onKeyDown=${keys}></textarea>
    <button class="primary" disabled=${disabled || !text.trim()}>${label}</button>
  </form>`;
}
