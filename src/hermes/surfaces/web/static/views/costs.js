// What models cost: by day, model and plugin, and what is left of the budgets.
import { html, useState } from "../vendor/preact.js";
import { useData } from "../api.js";
import { compact, count, money } from "../format.js";

const PERIODS = [[1, "1 day"], [7, "7 days"], [30, "30 days"], [365, "1 year"]];

const tokensOf = (row) => row.prompt_tokens + row.output_tokens;

function Days({ rows }) {
  const days = [...rows].reverse();
  const hasCost = days.some((day) => day.cost_usd);
  const value = (day) => (hasCost ? day.cost_usd ?? 0 : tokensOf(day));
  const most = Math.max(1e-9, ...days.map(value));
  const shown = (day) => (hasCost ? money(day.cost_usd) || "–" : `${compact(tokensOf(day))} tokens`);
  return html`<figure class="days" aria-label=${`By day, in ${hasCost ? "dollars" : "tokens"}`}>
    ${days.map((day) => html`<div class="day" title=${`${day.name}: ${shown(day)}, ${count(day.calls)} calls`}>
      <span class="amount">${shown(day)}</span><i style=${{ height: `${Math.max(2, (value(day) / most) * 100)}px` }}></i><span class="name">${day.name.slice(5)}</span></div>`)}
  </figure>`;
}

function Usage({ name, rows }) {
  return html`<h2>By ${name}</h2><div class="scroll"><table>
    <thead><tr><th>${name[0].toUpperCase() + name.slice(1)}</th><th class="n">Calls</th><th class="n">Failed</th><th class="n">In</th><th class="n">Cached</th><th class="n">Out</th><th class="n">Cost</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr><td>${row.name}${row.detail ? html` <span class="sub">${row.detail}</span>` : null}</td>
      <td class="n">${count(row.calls)}</td><td class=${`n ${row.failed ? "bad" : ""}`}>${row.failed ? count(row.failed) : ""}</td>
      <td class="n">${compact(row.prompt_tokens)}</td><td class="n">${compact(row.cached_tokens)}</td><td class="n">${compact(row.output_tokens)}</td><td class="n">${money(row.cost_usd) || "–"}</td></tr>`)}</tbody></table></div>`;
}

function Budget({ budget }) {
  const units = { usd: money, tokens: compact, minutes: (value) => `${value.toFixed(1)} min`, calls: (value) => `${count(value)} calls` };
  const limits = Object.entries(budget.limits).filter(([, limit]) => limit != null);
  return html`<div class="card budget"><h3>${budget.name} <span class="sub">${budget.spent && budget.kind !== "day" ? `budget of this ${budget.kind}` : "budget"}</span></h3>
    ${limits.map(([unit, limit]) => {
      const spent = budget.spent?.[unit];
      if (spent == null) return html`<p>at most ${units[unit](limit)}</p>`;
      const share = limit ? spent / limit : 1;
      return html`<p>${units[unit](spent) || "$0"} of ${units[unit](limit)}</p>
        <div class="meter" role="meter" aria-valuenow=${Math.round(share * 100)} aria-valuemin="0" aria-valuemax="100" aria-label=${`${budget.name} ${unit}`}><i class=${share >= 1 ? "over" : share > 0.8 ? "near" : ""} style=${{ width: `${Math.min(100, share * 100)}%` }}></i></div>`;
    })}</div>`;
}

export function View() {
  const [days, setDays] = useState(30);
  const { data, error } = useData(`/api/costs?days=${days}`);
  if (error) return html`<main class="narrow"><p class="problem">${error}</p></main>`;
  if (!data) return html`<p class="empty">Loading…</p>`;
  const all = data.total;
  return html`<main class="narrow">
    <div class="filters"><h1>Costs</h1><div class="choices" role="group" aria-label="Period">${PERIODS.map(([value, name]) => html`<button aria-pressed=${days === value} onClick=${() => setDays(value)}>${name}</button>`)}</div></div>
    <div class="totals">
      <div class="card"><b>${money(all.cost_usd) || "–"}</b><span>spent</span></div>
      <div class="card"><b>${compact(tokensOf(all))}</b><span>tokens</span></div>
      <div class="card"><b>${count(all.calls)}</b><span>model calls</span></div>
      <div class="card"><b class=${all.failed ? "bad" : ""}>${count(all.failed)}</b><span>failed</span></div>
    </div>
    ${all.unpriced ? html`<p class="sub">The cost of ${count(all.unpriced)} calls is unknown and not included.</p>` : null}
    ${data.budgets.length ? html`<h2>Budgets</h2><div class="budgets">${data.budgets.map((budget) => html`<${Budget} budget=${budget} />`)}</div>` : null}
    ${data.day.length ? html`<h2>By day</h2><${Days} rows=${data.day} />` : html`<p class="empty">No model calls in this period.</p>`}
    ${data.model.length ? html`<${Usage} name="model" rows=${data.model} />` : null}
    ${data.plugin.length ? html`<${Usage} name="plugin" rows=${data.plugin} />` : null}
  </main>`;
}
