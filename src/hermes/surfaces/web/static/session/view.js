// One session: its figures, and its timeline, events and conversation as they happen.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { address, get, page, useData, useLive } from "../api.js";
import { Chat } from "./chat.js";
import { Detail } from "./detail.js";
import { clock } from "../format.js";
import { LongList } from "../list.js";
import { Figures } from "../parts.js";
import { Questions } from "./questions.js";
import { Timeline } from "./timeline.js";
import { Waterfall } from "./waterfall.js";

const TABS = [["timeline", "Timeline"], ["events", "Events"], ["chat", "Conversation"]];

function Events({ id, head, selected, onSelect }) {
  const [events, setEvents] = useState([]);
  const [error, setError] = useState("");
  const asked = useRef(0);
  useEffect(() => {
    if (head <= asked.current) return;
    const after = asked.current;
    asked.current = head;
    get(`/api/sessions/${encodeURIComponent(id)}/events?after=${after}`).then(
      (found) => {
        asked.current = Math.max(asked.current, ...found.slice(-1).map((one) => one[0]));
        const rows = found.map(([seq, kind, key, at]) => ({ key: `event ${seq}`, id: key, seq, at, label: kind, session: id, step: key }));
        setEvents((old) => [...old.filter((row) => row.seq <= after), ...rows]);
      },
      (problem) => setError(problem.message),
    );
  }, [head]);
  if (error) return html`<p class="problem">${error}</p>`;
  return html`<${LongList} items=${events} height=${28} selected=${selected} onSelect=${onSelect} label="Events" follow=${true}
    row=${(event) => html`<div class="event-row"><span class="seq">${event.seq}</span><time>${clock(event.at)}</time><b>${event.label}</b><code>${event.step}</code></div>`} />`;
}

export function View({ id, go, navigate, tab, onPending, setProblem }) {
  const path = `/api/sessions/${encodeURIComponent(id)}`;
  const timeline = useMemo(() => new Timeline(id), [id]);
  const [line, setLine] = useState(page.session?.id === id ? page.session : null);
  const [version, setVersion] = useState(0);
  const [selected, setSelected] = useState(null);
  const [isGone, setGone] = useState(false);
  const [text, setText] = useState("");
  const { data, error } = useData(path);
  useEffect(() => {
    if (!data) return;
    timeline.apply(data.rows);
    setLine(data.session);
    setVersion((old) => old + 1);
  }, [data]);
  useEffect(() => {
    if (line) document.title = `${line.title || id} · Hermes`;
  }, [line?.title]);
  const connected = useLive(data ? `${path}/live` : null, data?.session.head ?? 0, {
    rows: ({ session, rows }) => {
      timeline.apply(rows);
      setLine(session);
      setVersion((old) => old + 1);
      if (rows.some((one) => one.id === id && one.rows?.length)) setText("");
    },
    text: ({ text: piece, reset }) => setText((old) => (reset ? piece : old + piece)),
    gone: () => setGone(true),
    problem: ({ error: what }) => setProblem(what),
  });
  useEffect(() => {
    const keys = (event) => event.key === "Escape" && setSelected(null);
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  const questions = useMemo(() => timeline.questions(), [timeline, version]);
  useEffect(() => onPending(null), [questions.length]);
  if (error && !line) return html`<main class="narrow"><p class="problem" role="alert">${error}</p><p><a href=${address("/")} onClick=${(event) => go(event, "/")}>All sessions</a></p></main>`;
  const isLive = !isGone && ["running", "waiting", "queued"].includes(line?.state);
  const row = selected && (timeline.sessions.get(selected.session)?.rows.get(selected.id) ?? selected);
  const open = (value) => {
    setSelected(null);
    navigate(`/sessions/${encodeURIComponent(id)}${value === "timeline" ? "" : `?tab=${value}`}`);
  };
  return html`<main class="session-view">
    <div class="session-head">
      <h1>${line?.title || id}</h1>
      ${line ? html`<${Figures} line=${line}>${connected || isGone ? null : html`<span class="bad" role="status">connecting…</span>`}</>` : null}
      ${isGone ? html`<p class="problem" role="alert">This session was deleted. What you see is the last state.</p>` : null}
      ${line?.error ? html`<p class="problem">${line.error}</p>` : null}
      <${Questions} rows=${questions} isGone=${isGone} />
      <div class="tabs" role="tablist">
        ${TABS.map(([value, name]) => html`<button role="tab" aria-selected=${tab === value} onClick=${() => open(value)}>${name}</button>`)}
        <span class="id"><code>${id}</code></span>
      </div>
    </div>
    <div class="split">
      ${tab === "timeline" && data ? html`<${Waterfall} timeline=${timeline} version=${version} isLive=${isLive} selected=${selected?.key} onSelect=${setSelected} />` : null}
      ${tab === "events" && data ? html`<${Events} id=${id} head=${line.head} selected=${selected?.key} onSelect=${setSelected} />` : null}
      ${tab === "chat" ? html`<${Chat} id=${id} head=${line?.head} isLive=${isLive} text=${text} setProblem=${setProblem} />` : null}
      ${data || tab === "chat" ? null : html`<p class="empty">Loading…</p>`}
      ${selected
        ? html`<${Detail} row=${{ ...row, key: selected.key, session: selected.session }} onClose=${() => setSelected(null)}
            load=${({ session, seq }) => get(`/api/sessions/${encodeURIComponent(session)}/events/${seq}`)}
            wholeAddress=${({ session, seq }) => address(`/api/sessions/${encodeURIComponent(session)}/events/${seq}?whole=1`)} />`
        : null}
    </div>
  </main>`;
}
