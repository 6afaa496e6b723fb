"""Timeline of a session in HTML: a plain table, for browsers without scripts and for exported files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from hermes.surfaces.web.queries.sessions import SessionLine
from hermes.surfaces.web.queries.timeline import TimelineRows


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
