// The waterfall of a session: a row for everything that was done, with a bar where it lies in its turn.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { compact, duration, money } from "../format.js";
import { LongList } from "../list.js";

const NAMES = { turn: "turn", model: "model", tool: "tool", approval: "approval", question: "question", child: "child", side: "side call", mark: "" };

const useNarrow = () => {
  const query = useRef(matchMedia("(max-width: 720px)")).current;
  const [narrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const change = () => setNarrow(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return narrow;
};

// Seconds since the epoch, ten times a second while something runs.
const useNow = (isLive) => {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    if (!isLive) return undefined;
    const timer = setInterval(() => setNow(Date.now() / 1000), 100);
    return () => clearInterval(timer);
  }, [isLive]);
  return now;
};

const stateOf = (row, isLive) => (row.state === "running" && !isLive ? "cut" : (row.state ?? "ok"));

const endOf = (row, isLive, now) => row.end ?? (stateOf(row, isLive) === "running" || row.state === "waiting" ? Math.max(now, row.start) : row.start);

const percent = (part) => `${(Math.max(0, Math.min(1, part)) * 100).toFixed(2)}%`;

function Bar({ row, isLive, now }) {
  const [start, ended, last] = row.span;
  const end = ended ?? (isLive ? Math.max(now, last ?? start) : (last ?? start));
  const whole = Math.max(end - start, 0.001);
  const at = (time) => percent((time - start) / whole);
  if (row.kind === "mark") return html`<span class="diamond" style=${{ left: at(row.start) }}></span>`;
  const length = endOf(row, isLive, now) - row.start;
  const style = { left: at(row.start), width: `max(3px, ${percent(length / whole)})` };
  const share = (seconds) => percent(length > 0 ? seconds / length : 0);
  const tries = row.tries ?? [];
  return html`<span class=${`bar ${row.kind} ${stateOf(row, isLive)}`} style=${style}>
    ${tries.slice(0, -1).map((one) => html`<i class="failed-try" style=${{ left: share(one.start - row.start), width: `max(3px, ${share(one.end - one.start)})` }}></i>`)}
    ${row.first != null && row.kind === "model" ? html`<i class="first-token" title=${`first token after ${duration(row.first)}`} style=${{ left: share((tries.length ? tries[tries.length - 1].start - row.start : 0) + row.first) }}></i>` : null}
  </span>`;
}

const figures = (row) => {
  const parts = [];
  if (row.read != null) parts.push(`${compact(row.read)} in`);
  if (row.written != null) parts.push(`${compact(row.written)} out`);
  if (row.cost != null) parts.push(money(row.cost));
  return parts.join(" · ");
};

const NOTES = { unknown: "outcome unknown", waiting: "waits for an answer", cut: "cut off", stopped: "stopped", error: "failed" };

const noteOf = (row, state) => {
  if (state === "unknown" || state === "cut" || state === "waiting") return NOTES[state];
  if (row.kind === "approval" || row.kind === "question") return row.error;
  if (row.error && state !== "ok") return row.error;
  const retries = (row.tries?.length ?? 1) - 1;
  const retried = retries > 0 ? `${retries} ${retries === 1 ? "retry" : "retries"}` : "";
  return [retried, figures(row), state === "ok" ? "" : NOTES[state]].filter(Boolean).join(" · ");
};

function Row({ row, isLive, now, narrow, onToggle }) {
  const state = stateOf(row, isLive);
  const name = row.kind === "turn" ? `${Number(row.id) + 1}` : NAMES[row.kind];
  const took = row.kind === "mark" ? "" : duration(endOf(row, isLive, now) - row.start);
  const text = row.kind === "turn" || row.kind === "child" ? "" : row.text;
  return html`<div class=${`wf-row ${row.kind} is-${state}`}>
    <div class="wf-label" style=${{ paddingLeft: `${row.depth * (narrow ? 10 : 16)}px` }}>
      ${row.parent
        ? html`<button class="fold" tabindex="-1" aria-label=${row.closed ? "open" : "close"} onClick=${(event) => { event.stopPropagation(); onToggle(row.key); }}>${row.closed ? "▸" : "▾"}</button>`
        : html`<span class="fold"></span>`}
      <span class=${`chip ${row.kind}`}>${name || "·"}</span>
      <span class="wf-name" title=${row.label}>${row.label}</span>
      <span class="wf-text" title=${text}>${text}</span>
    </div>
    <div class="wf-bar"><${Bar} row=${row} isLive=${isLive} now=${now} /></div>
    <div class="wf-time">${took}</div>
    <div class="wf-note" title=${noteOf(row, state)}>${noteOf(row, state)}</div>
  </div>`;
}

export function Waterfall({ timeline, version, isLive, selected, onSelect }) {
  const narrow = useNarrow();
  const now = useNow(isLive);
  const [closed, setClosed] = useState(new Set());
  const rows = useMemo(() => timeline.flat(isLive, closed), [timeline, version, isLive, closed]);
  const toggle = (key, to) => {
    const next = new Set(closed);
    if (to ?? !closed.has(key)) next.add(key);
    else next.delete(key);
    setClosed(next);
  };
  const keys = (event, row) => {
    if (!row) return false;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      if (row.parent) toggle(row.key, event.key === "ArrowLeft");
      return true;
    }
    return false;
  };
  if (!rows.length) return html`<p class="empty">Nothing was recorded yet.</p>`;
  const header = narrow ? null : html`<div class="wf-row wf-head" aria-hidden="true"><div>Step</div><div>Time in its turn</div><div class="wf-time">Took</div><div>Tokens, cost, result</div></div>`;
  return html`<${LongList} items=${rows} height=${narrow ? 50 : 32} selected=${selected} onSelect=${onSelect} onKey=${keys} label="Timeline" follow=${isLive} header=${header}
    row=${(row) => html`<${Row} row=${row} isLive=${isLive} now=${now} narrow=${narrow} onToggle=${toggle} />`} />`;
}
