// Open questions with buttons to answer them: approvals of calls, and what the model asks.
import { html, useState } from "../vendor/preact.js";
import { post } from "../api.js";

export function Question({ id, kind, label, text, choices = [], onDone, isGone }) {
  const [state, setState] = useState({});
  const [own, setOwn] = useState("");
  const answer = async (value) => {
    setState({ busy: true });
    try {
      await post(`/api/approvals/${encodeURIComponent(id)}`, { answer: value });
      setState({ done: value });
      onDone?.();
    } catch (error) {
      setState({ error: error.message });
    }
  };
  const buttons = (names) =>
    names.map(([value, name, look]) => html`<button class=${look} disabled=${state.busy || isGone} onClick=${() => answer(value)}>${name}</button>`);
  if (state.done) return html`<div class="open-question done" role="status">Answered: ${state.done}</div>`;
  return html`<div class="open-question">
    <p><b>${kind === "approval" ? "Approval needed" : "Question"}</b> ${label}</p>
    ${text ? html`<pre>${text}</pre>` : null}
    <div class="answers">
      ${kind === "approval"
        ? buttons([["once", "Allow once", "primary"], ["session", "Allow for the session", ""], ["deny", "Deny", "danger"]])
        : buttons(choices.map((choice) => [choice, choice, ""]))}
      ${kind === "approval"
        ? null
        : html`<form onSubmit=${(event) => { event.preventDefault(); answer(own); }}>
            <input value=${own} placeholder="Your answer" aria-label="Your answer" onInput=${(event) => setOwn(event.target.value)} />
            <button class="primary" disabled=${!own.trim() || state.busy}>Answer</button></form>`}
    </div>
    ${state.error ? html`<p class="problem" role="alert">${state.error}</p>` : null}
  </div>`;
}

export function Questions({ rows, isGone }) {
  return rows.map((row) => html`<${Question} key=${row.question} id=${row.question} kind=${row.kind} label=${row.label} text=${row.kind === "approval" ? row.text : ""} choices=${row.choices} isGone=${isGone} />`);
}
