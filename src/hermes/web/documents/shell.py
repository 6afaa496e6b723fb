"""The HTML documents of the page: a frame with the data of the first view, plain tables, and the form to sign in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

import msgspec

from hermes.web.documents.assets import FIRST, style, version
from hermes.web.queries.sessions import SessionLine
from hermes.web.queries.timeline import TimelineRows

_encode = msgspec.json.Encoder().encode

_NAVIGATION = (
    ("", "Sessions"),
    ("approvals", "Approvals"),
    ("costs", "Costs"),
    ("plugins", "Plugins"),
    ("compare", "Compare"),
)


def document(title: str, head: str, body: str) -> str:
    """A whole HTML document."""
    meta = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
    )
    return f'<!doctype html>\n<html lang="en"><head>{meta}<title>{escape(title)}</title>{head}</head>\n{body}</html>\n'


def embedded(data: object) -> str:
    """Data for a script, as an element that no browser runs and no text inside can end."""
    return f'<script type="application/json" id="data">{json_text(data)}</script>'


def json_text(data: object) -> str:
    """JSON that may stand inside HTML."""
    return _encode(data).decode().replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page(root: str, title: str, data: object, table: str, scripts: Sequence[str] = (FIRST,)) -> str:
    """The frame of a view. ``table`` is shown until the first of the ``scripts`` runs; the others it imports.

    A browser can paint it without another request.
    """
    static = f"{escape(root)}/static/{version()}"
    links = " ".join(f'<a href="{escape(root)}/{path}">{name}</a>' for path, name in _NAVIGATION)
    head = (
        f"<style>{style()}</style>"
        f'<link rel="icon" href="{static}/icon.svg" type="image/svg+xml">'
        f'<script type="module" src="{static}/{scripts[0]}"></script>'
        + "".join(f'<link rel="modulepreload" href="{static}/{name}">' for name in scripts[1:])
    )
    plain = f'<header class="plain"><strong>Hermes</strong> <nav>{links}</nav></header>{table}'
    note = "<noscript><p>JavaScript is off: this is the state when the page was loaded.</p></noscript>"
    return document(f"{title} · Hermes", head, f'<body>{embedded(data)}<div id="app">{plain}{note}</div></body>')


def sign_in_page(root: str, problem: str = "") -> str:
    """The form that asks for the token."""
    said = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    form = (
        f'<form method="post" action="{escape(root)}/sign-in"><label>Token '
        '<input name="token" type="password" autocomplete="current-password" required autofocus></label> '
        '<button type="submit">Sign in</button></form>'
    )
    text = "<p>Open the address that <code>hermes web</code> printed, or enter the token in it.</p>"
    head = f'<link rel="stylesheet" href="{escape(root)}/static/style.css">'
    return document(
        "Sign in · Hermes", head, f'<body><main class="sign-in"><h1>Hermes</h1>{said}{text}{form}</main></body>'
    )


def problem_page(root: str, text: str) -> str:
    """What is wrong with the journal."""
    head = f'<link rel="stylesheet" href="{escape(root)}/static/style.css">'
    body = (
        f'<body><main class="sign-in"><h1>Hermes</h1><p class="problem" role="alert">{escape(text)}</p></main></body>'
    )
    return document("Hermes", head, body)


# -- plain tables ---------------------------------------------------------------------------------------------------


def sessions_table(root: str, lines: Iterable[SessionLine]) -> str:
    """The sessions as a plain table."""
    rows = [
        (
            f'<a href="{escape(root)}/sessions/{quote(line.id, safe="")}">{escape(line.title or line.id)}</a>',
            escape(line.state),
            escape(line.model),
            str(line.turns),
            f"{line.read + line.written:,}",
            _cost(line.cost),
            escape(_clock(line.updated)),
        )
        for line in lines
    ]
    return _table("Sessions", ("Session", "State", "Model", "Turns", "Tokens", "Cost", "Used"), rows)


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
    return f"<main><h1>{escape(heading)}</h1>{table}</main>"


def _cost(usd: float | None) -> str:
    return "" if usd is None else f"${usd:,.4f}"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
