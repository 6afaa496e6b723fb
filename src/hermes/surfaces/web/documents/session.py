"""A session in HTML: its view in the page, and as one file with its details and scripts for any browser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

import msgspec

from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.surfaces.web.documents.assets import content_hash, one_script, text_of
from hermes.surfaces.web.documents.frame import document, embedded
from hermes.surfaces.web.queries.detail import EventDetail, event_detail
from hermes.surfaces.web.queries.sessions import IsAlive, SessionLine
from hermes.surfaces.web.queries.timeline import TimelineRows, family_rows
from hermes.trace.clean import Cleaner


def session_document(store: Store, session_id: str, is_alive: IsAlive, clean: Cleaner) -> str:
    """The document. Raises ``SessionNotFound``."""

    def read(connection: JournalConnection) -> str:
        line, rows = family_rows(connection, session_id, is_alive, clean)
        events = dict(_events(connection, rows, clean))
        data = {"session": msgspec.to_builtins(line), "rows": rows, "events": events}
        return _document(line.title or session_id, data, timeline_table(line, rows))

    return store.read(read)


def _events(
    connection: JournalConnection, families: list[TimelineRows], clean: Cleaner
) -> Iterator[tuple[str, EventDetail]]:
    """The events behind the rows, as the details show them."""
    for one in families:
        for seq in sorted({row.seq for row in one.rows if row.seq}):
            yield f"{one.id} {seq}", event_detail(connection, one.id, seq, clean)


def _document(title: str, data: object, table: str) -> str:
    # A script may not contain the end of its element.
    script = one_script("report.js").replace("</script", "<\\/script")
    style = text_of("style.css")
    hashes = f"script-src '{content_hash(script)}'; style-src '{content_hash(style)}'"
    policy = f"default-src 'none'; {hashes}; img-src data:"
    head = f'<meta http-equiv="content-security-policy" content="{escape(policy)}"><style>{style}</style>'
    inner = f'{embedded(data)}<div id="app">{table}</div><script type="module">{script}</script>'
    return document(f"{title} · Hermes", head, f"<body>{inner}</body>")


def session_frame(session: SessionLine, families: Sequence[TimelineRows]) -> str:
    """The view of a session: its title, and a plain table where no script draws the timeline."""
    title = f'<div class="session-head"><h1>{escape(session.title or session.id)}</h1></div>'
    table = f"<noscript>{timeline_table(session, families)}</noscript>"
    return f'<main class="session-view">{title}<p class="empty needs-script">Loading…</p>{table}</main>'


def timeline_table(session: SessionLine, families: Sequence[TimelineRows]) -> str:
    """The rows of a session and its children as a plain table, by time."""
    rows: list[tuple[float, tuple[str, ...]]] = []
    for one in families:
        for row in one.rows:
            name = f"{row.kind} {row.label}" if row.kind != "turn" else f"turn {int(row.id or 0) + 1}: {row.label}"
            took = f"{row.end - row.start:.3f} s" if row.start is not None and row.end is not None else ""
            whose = "" if one.id == session.id else f"child {one.id}: "
            cells = (escape(whose + name), escape(row.text), escape(row.state or ""), took, escape(row.error))
            rows.append((row.start or 0.0, cells))
    rows.sort(key=lambda item: item[0])
    heading = f"{session.title or session.id} ({session.state})"
    return _table(heading, ("What", "Text", "State", "Time", "Error"), [cells for _, cells in rows])


def _table(heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in columns)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    return f'<section class="plain"><h1>{escape(heading)}</h1>{table}</section>'
