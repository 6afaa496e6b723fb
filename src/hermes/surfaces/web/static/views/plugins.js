// How plugins do: calls, failures, time, errors, exports, and what they asked models.
import { html } from "../vendor/preact.js";
import { useData } from "../api.js";
import { ago, count, duration, money, plural } from "../format.js";

const mean = (one) => (one.calls ? duration(one.seconds / one.calls) : "");

const health = (one) => {
  if (!one.sessions && !one.model_calls) return ["idle", "not used yet"];
  if (one.load_error) return ["bad", "could not be loaded"];
  if (one.failures || one.exports?.some((part) => part.failed)) return ["near", "had failures"];
  return ["good", "healthy"];
};

export function View() {
  const { data, error } = useData("/api/plugins");
  if (error) return html`<main class="narrow"><p class="problem">${error}</p></main>`;
  if (!data) return html`<p class="empty">Loading…</p>`;
  return html`<main class="narrow"><h1>Plugins</h1>
    ${data.length ? null : html`<p class="empty">No plugin was used in a stored session. <code>hermes plugins list</code> shows those there are.</p>`}
    ${data.map((one) => {
      const [look, words] = health(one);
      return html`<article class="card plugin" key=${one.name}>
        <header><h2>${one.name}</h2><span class=${`tag ${look}`}>${words}</span>${one.last_used ? html`<span class="sub">used ${ago(one.last_used)} · ${plural(one.sessions, "session")}</span>` : null}</header>
        ${one.calls ? html`<p>${count(one.calls)} calls, <span class=${one.failures ? "bad" : ""}>${count(one.failures)} failed</span>, ${mean(one)} each, ${duration(one.seconds)} in all</p>` : null}
        ${one.model_calls ? html`<p>asked models ${count(one.model_calls)} times: ${count(one.tokens)} tokens ${money(one.cost)}</p>` : null}
        ${(one.exports ?? []).map((part) => html`<p>sent ${count(part.events)} events to ${part.to}${part.failed ? html`, <span class="bad">${count(part.failed)} failed</span>` : ""}</p>`)}
        ${one.load_error ? html`<pre class="bad">${one.load_error}</pre>` : null}
        ${one.last_error ? html`<p class="sub">last error</p><pre>${one.last_error}</pre>` : null}
        ${one.joins?.length ? html`<p class="tags">${one.joins.map((name) => html`<span class="tag">${name}</span>`)}</p>` : null}
      </article>`;
    })}
  </main>`;
}
