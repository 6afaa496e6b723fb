// Everything that waits for an answer, and the last answers.
import { html, useState } from "../vendor/preact.js";
import { address, useData, useLive } from "../api.js";
import { ago } from "../format.js";
import { Question } from "../session/questions.js";

export function View({ go, onPending, setProblem }) {
  const [again, setAgain] = useState(0);
  const { data, error } = useData("/api/approvals", again);
  useLive("/api/live", 0, {
    sessions: ({ pending }) => {
      onPending(pending);
      setAgain((old) => old + 1);
    },
    problem: (found) => setProblem(found.error),
  });
  if (error) return html`<main class="narrow"><p class="problem">${error}</p></main>`;
  if (!data) return html`<p class="empty">Loading…</p>`;
  const link = (one) => {
    const to = `/sessions/${encodeURIComponent(one.session)}`;
    return html`<a href=${address(to)} onClick=${(event) => go(event, to)}>${one.title || one.session}</a>`;
  };
  return html`<main class="narrow">
    <h1>Waiting for an answer</h1>
    ${data.waiting.length ? null : html`<p class="empty">Nothing waits for an answer.</p>`}
    ${data.waiting.map((one) => html`<article class="card" key=${one.id}>
      <p class="sub">${link(one)} · ${ago(one.asked)}${one.principal ? html` · for <b>${one.principal}</b>` : null}${one.surface === "cli" ? " · also asked at a terminal" : ""}</p>
      <${Question} id=${one.id} kind=${one.kind} label=${one.kind === "approval" ? `${one.tool} ${one.why}` : one.subject} text=${one.kind === "approval" ? one.subject : ""} choices=${one.choices} onDone=${() => setAgain(again + 1)} />
    </article>`)}
    <h2>Last answers</h2>
    ${data.recent.length ? null : html`<p class="empty">None yet.</p>`}
    <ul class="plain-list">${data.recent.map((one) => html`<li><span class=${`tag ${one.answer === "deny" || one.answer === "timeout" ? "bad" : "good"}`}>${one.answer ?? "withdrawn"}</span> <code>${one.subject.slice(0, 200)}</code> <span class="sub">${link(one)} · ${ago(one.answered)}${one.reason ? ` · ${one.reason}` : ""}</span></li>`)}</ul>
  </main>`;
}
