// The rows of a session and its children: brought together from events, and laid out as a tree.

const REPLACED = new Set(["model", "approval", "question", "side"]);

const mergedRow = (old, row) => {
  if (!old || REPLACED.has(row.kind)) return row;
  const merged = { ...old, ...row };
  if (row.state === "running" && row.kind === "turn") {
    delete merged.end;
    delete merged.error;
  }
  return merged;
};

const byStart = (a, b) => (a.start ?? 0) - (b.start ?? 0) || ORDER[a.kind] - ORDER[b.kind];
const ORDER = { turn: 0, mark: 1, model: 2, side: 3, tool: 4, approval: 5, question: 5, child: 6 };

export class Timeline {
  constructor(id) {
    this.id = id;
    this.sessions = new Map();
  }

  // Take in rows of some sessions of the family.
  apply(list) {
    for (const { rows, ...about } of list) {
      const known = this.sessions.get(about.id) ?? { rows: new Map() };
      Object.assign(known, about);
      for (const row of rows ?? []) {
        known.rows.set(row.id, mergedRow(known.rows.get(row.id), row));
      }
      this.sessions.set(about.id, known);
    }
  }

  get head() {
    return this.sessions.get(this.id)?.head ?? 0;
  }

  // The open questions of the family.
  questions() {
    const found = [];
    for (const session of this.sessions.values()) {
      for (const row of session.rows.values()) if (row.question) found.push(row);
    }
    return found;
  }

  // The rows in the order in which they are shown, each with its depth and the time span of its turn.
  flat(isLive, closed = new Set()) {
    const main = this.sessions.get(this.id);
    const found = [];
    if (!main) return found;
    const groups = new Map();
    for (const session of this.sessions.values()) groups.set(session.id, this.#grouped(session));
    const tree = { groups, children: this.#childrenByRow() };
    const add = (session, row, depth, span) => {
      const key = `${session.id} ${row.id}`;
      const below = this.#below(session, row, tree, isLive);
      const isClosed = closed.has(key);
      const turnSpan = row.kind === "turn" ? this.#span(row, below) : span;
      found.push({ ...row, session: session.id, key, depth, span: turnSpan, parent: below.length > 0, closed: isClosed });
      if (!isClosed) for (const [of, inner] of below) add(of, inner, depth + 1, turnSpan);
    };
    for (const turn of groups.get(main.id).turns) add(main, turn, 0);
    for (const row of groups.get(main.id).between) add(main, row, 0, [row.start, row.end ?? row.start]);
    return found;
  }

  // When the turn began, when it ended if it has, and the last that is known of it.
  #span(turn, below) {
    const last = Math.max(turn.start, ...below.slice(-200).map(([, row]) => row.end ?? row.start ?? 0));
    return [turn.start, turn.end ?? null, last];
  }

  // The rows of a session: its turns, the steps of each, the questions of each step, and what lies between turns.
  #grouped(session) {
    const group = { turns: [], steps: new Map(), asked: new Map(), between: [] };
    const put = (map, key, row) => (map.has(key) ? map.get(key).push(row) : map.set(key, [row]));
    for (const row of session.rows.values()) {
      const slash = row.id.indexOf("/");
      if (row.kind === "turn") group.turns.push(row);
      else if (row.kind === "approval" || row.kind === "question") put(group.asked, row.id.slice(0, row.id.lastIndexOf("/")), row);
      else if (slash > 0) put(group.steps, row.id.slice(0, slash), row);
      else group.between.push(row);
    }
    group.turns.sort(byStart);
    for (const steps of group.steps.values()) steps.sort(byStart);
    return group;
  }

  // What is shown below a row, each with its session.
  #below(session, row, { groups, children }, isLive) {
    const group = groups.get(session.id);
    if (row.kind === "turn") return this.#steps(group, row, isLive).map((step) => [session, step]);
    if (row.kind === "child") {
      const child = this.sessions.get(row.of);
      const inner = groups.get(child.id);
      return inner.turns.flatMap((turn) => this.#steps(inner, turn, isLive).map((step) => [child, step]));
    }
    const asked = (group.asked.get(row.id) ?? []).map((one) => [session, one]);
    const started = (children.get(`${session.id} ${row.id}`) ?? []).map((child) => [session, this.#childRow(child)]);
    return asked.length || started.length ? [...asked, ...started].sort((a, b) => byStart(a[1], b[1])) : [];
  }

  // The steps of a turn. While it runs and nothing in it does, the model is being asked.
  #steps(group, turn, isLive) {
    const steps = group.steps.get(turn.id) ?? [];
    if (turn.state !== "running" || !isLive) return steps;
    const isWaiting = [...group.asked.values()].some((rows) => rows.some((row) => row.question));
    if (isWaiting || steps.some((row) => row.state === "running")) return steps;
    const start = Math.max(turn.start, ...steps.slice(-200).map((row) => row.end ?? row.start ?? 0));
    return [...steps, { id: `${turn.id}/next`, kind: "model", label: "model", start, state: "running" }];
  }

  #childRow(child) {
    const turns = [...child.rows.values()].filter((row) => row.kind === "turn");
    const last = turns[turns.length - 1];
    return {
      id: `child ${child.id}`,
      kind: "child",
      of: child.id,
      label: turns[0]?.label || child.label,
      start: child.start,
      end: last?.end,
      state: last?.state ?? "running",
      error: last?.error ?? "",
      seq: turns[0]?.seq ?? 0,
    };
  }

  // The children by the row of the call that started them: the last call with that id before the child began.
  #childrenByRow() {
    const found = new Map();
    for (const child of this.sessions.values()) {
      const parent = this.sessions.get(child.parent);
      if (!parent || child.id === this.id) continue;
      let started = null;
      for (const row of parent.rows.values()) {
        const isBefore = (row.start ?? 0) <= child.start + 1;
        if (row.kind === "tool" && row.call === child.call && isBefore) started = row;
      }
      if (!started) continue;
      const key = `${parent.id} ${started.id}`;
      found.set(key, [...(found.get(key) ?? []), child]);
    }
    return found;
  }
}
