// The list of sessions, live, with a filter and a box to begin a new one.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { AGAIN, address, get, page, post, useLive } from "../api.js";
import { ago, compact, money, plural } from "../format.js";
import { Composer, State } from "../parts.js";

const STATES = [["", "All"], ["running", "Running"], ["failed", "Failed"]];

// `session_list.py` writes the same elements, for the first paint.
function Line({ line, go, picked, onPick }) {
  const href = `/sessions/${encodeURIComponent(line.id)}`;
  const children = line.children ? (line.children === 1 ? "1 child" : `${line.children} children`) : "";
  const parts = [line.platform, line.model, plural(line.turns ?? 0, "turn"), children, line.principal ? `for ${line.principal}` : ""];
  return html`<tr class="session">
    <td><${State} state=${line.state} /></td>
    <td>
      <a class="title" href=${page.root + href} onClick=${(event) => go(event, href)}>${line.title || "(no title)"}</a>
      <span class="sub">${line.waiting ? html`<b class="badge">${plural(line.waiting, "question")}</b> ` : null}${parts.filter(Boolean).join(" · ")}${line.failed ? html` · <em class="bad">${line.failed} failed</em>` : null}${line.error ? html` · <em class="bad">${line.error}</em>` : null}</span>
    </td>
    <td class="n">${compact((line.read ?? 0) + (line.written ?? 0))}</td>
    <td class="n">${money(line.cost)}</td>
    <td class="n"><time>${ago(line.updated)}</time></td>
    <td class="pick"><input type="checkbox" aria-label=${`Compare ${line.title || line.id}`} title="Pick two to compare" checked=${picked} onChange=${onPick} /></td>
  </tr>`;
}

export function Sessions({ go, navigate, onPending, setProblem, query: asked }) {
  // An address that names older sessions is for browsers without a script: here the list begins with the newest.
  const given = asked.has("before") ? null : (page.sessions ?? null);
  const [lines, setLines] = useState(given);
  const [text, setText] = useState(asked.get("q") ?? "");
  const [state, setState] = useState(asked.get("state") ?? "");
  const [picked, setPicked] = useState([]);
  const [again, setAgain] = useState(0);
  const [more, setMore] = useState((given ?? []).length >= 50);
  const isFiltered = text !== "" || state !== "";
  const query = (before) => {
    const parts = new URLSearchParams();
    if (text) parts.set("q", text);
    if (state) parts.set("state", state);
    if (before) parts.set("before", before);
    return parts.size ? `?${parts}` : "";
  };
  const first = useRef(true);
  useEffect(() => {
    // Coming back, or loading the page again, finds the same part of the list.
    history.replaceState(null, "", address(`/${query()}`));
    const isThere = first.current && lines;
    first.current = false;
    // What came with the document is the state of that moment: coming back asks anew.
    page.sessions = undefined;
    if (isThere) return undefined;
    let isCurrent = true;
    const load = () =>
      get(`/api/sessions${query()}`).then(
        (found) => {
          if (!isCurrent) return;
          setProblem("");
          setLines(found);
          setMore(found.length >= 50);
        },
        (error) => {
          if (!isCurrent) return;
          setProblem(error.message);
          if (error.isUnreachable) timer = setTimeout(load, AGAIN);
        },
      );
    let timer = setTimeout(load, text ? 150 : 0);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [text, state, again]);
  const newest = useRef(Math.max(0, ...(lines ?? []).map((line) => line.updated))).current;
  const connected = useLive("/api/live", newest, {
    sessions: ({ sessions, pending, gone, reload }) => {
      onPending(pending);
      if (reload) setAgain((old) => old + 1);
      setLines((old) => {
        const known = new Map((old ?? []).filter((line) => !gone.includes(line.id)).map((line) => [line.id, line]));
        for (const line of sessions) if (known.has(line.id) || !isFiltered) known.set(line.id, line);
        return [...known.values()].sort((a, b) => b.updated - a.updated);
      });
    },
    problem: ({ error }) => setProblem(error),
  });
  const loadMore = async () => {
    const found = await get(`/api/sessions${query(lines[lines.length - 1].updated)}`);
    setLines([...lines, ...found]);
    setMore(found.length >= 50);
  };
  const begin = async (message) => {
    try {
      const { session } = await post("/api/chat", { text: message, key: crypto.randomUUID() });
      navigate(`/sessions/${encodeURIComponent(session)}?tab=chat`);
      return true;
    } catch (error) {
      setProblem(error.message);
      return false;
    }
  };
  const pick = (id) => setPicked(picked.includes(id) ? picked.filter((one) => one !== id) : [...picked.slice(-1), id]);
  return html`<main class="narrow">
    ${page.chat ? html`<${Composer} placeholder="Ask Hermes something new…" onSend=${begin} />` : null}
    <form class="filters" action=${address("/")} onSubmit=${(event) => event.preventDefault()}>
      <input type="search" name="q" placeholder="Filter by title, id or model" aria-label="Filter sessions" value=${text} onInput=${(event) => setText(event.target.value)} />
      <div class="choices" role="group" aria-label="State">
        ${STATES.map(([value, name]) => html`<button name="state" value=${value} aria-pressed=${state === value} onClick=${() => setState(value)}>${name}</button>`)}
      </div>
      ${picked.length === 2 ? html`<button type="button" class="primary" onClick=${() => navigate(`/compare?a=${encodeURIComponent(picked[0])}&b=${encodeURIComponent(picked[1])}`)}>Compare the two</button>` : null}
      ${connected ? null : html`<span class="bad" role="status">connecting…</span>`}
    </form>
    ${lines === null ? html`<p class="empty">Loading…</p>` : null}
    ${lines && !lines.length ? html`<p class="empty">${isFiltered ? "No session matches." : html`No sessions yet. Begin one here, or with <code>hermes chat</code>.`}</p>` : null}
    ${lines?.length ? html`<table class="sessions">
      <thead><tr><th>State</th><th>Session</th><th class="n">Tokens</th><th class="n">Cost</th><th class="n">Used</th><th class="pick" aria-label="Compare"></th></tr></thead>
      <tbody>${lines.map((line) => html`<${Line} key=${line.id} line=${line} go=${go} picked=${picked.includes(line.id)} onPick=${() => pick(line.id)} />`)}</tbody>
    </table>` : null}
    ${more && lines?.length ? html`<button class="more" onClick=${loadMore}>Show more</button>` : null}
  </main>`;
}
