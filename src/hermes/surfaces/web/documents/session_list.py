"""The list of sessions as HTML, with the elements that ``views/sessions.js`` draws.

A browser paints it before the script has run, and shows it where there is none. The script takes the elements over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from urllib.parse import quote, urlencode

from hermes.surfaces.web.queries.sessions import SessionFilter, SessionLine

_COMPOSER = (
    '<form class="composer"><textarea rows="1" placeholder="Ask Hermes something new…" '
    'aria-label="Ask Hermes something new…"></textarea><button class="primary" disabled>Send</button></form>'
)
_STATES = (("", "All"), ("running", "Running"), ("failed", "Failed"))
#: More than fit a window. The script adds the others, whose data is in the document too.
_ROWS = 20
_HEAD = (
    '<thead><tr><th>State</th><th>Session</th><th class="n">Tokens</th><th class="n">Cost</th><th class="n">Used</th>'
    '<th class="pick" aria-label="Compare"></th></tr></thead>'
)


def session_list(root: str, lines: Sequence[SessionLine], wanted: SessionFilter, *, chat: bool) -> str:
    """The view of the sessions, with a box to begin one where there is a chat."""
    now = time.time()
    rows = "".join(_row(root, line, now) for line in lines[:_ROWS])
    table = f'<table class="sessions">{_HEAD}<tbody>{rows}</tbody></table>' if lines else _no_sessions(wanted)
    composer = _COMPOSER if chat else ""
    return f'<main class="narrow">{composer}{_filters(root, wanted)}{table}{_older(root, lines, wanted)}</main>'


def _no_sessions(wanted: SessionFilter) -> str:
    if wanted.text or wanted.state:
        return '<p class="empty">No session matches.</p>'
    return '<p class="empty">No sessions yet. Begin one here, or with <code>hermes chat</code>.</p>'


def _filters(root: str, wanted: SessionFilter) -> str:
    buttons = "".join(
        f'<button name="state" value="{value}" aria-pressed="{str(value == wanted.state).lower()}">{name}</button>'
        for value, name in _STATES
    )
    return (
        f'<form class="filters" action="{escape(root)}/"><input type="search" name="q" value="{escape(wanted.text)}" '
        'placeholder="Filter by title, id or model" aria-label="Filter sessions">'
        f'<div class="choices" role="group" aria-label="State">{buttons}</div></form>'
    )


def _older(root: str, lines: Sequence[SessionLine], wanted: SessionFilter) -> str:
    """A link to the sessions before these, where no script adds them."""
    if len(lines) <= _ROWS:
        return ""
    asked = {"q": wanted.text, "state": wanted.state, "before": lines[_ROWS - 1].updated}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f'<noscript><p><a href="{escape(root)}/?{escape(query)}">Older sessions</a></p></noscript>'


def _row(root: str, line: SessionLine, now: float) -> str:
    name, state = escape(line.title or line.id), escape(line.state)
    return (
        f'<tr class="session"><td><span class="state {state.replace(" ", "-")}"><i></i>{state}</span></td>'
        f'<td><a class="title" href="{escape(root)}/sessions/{quote(line.id, safe="")}">'
        f'{escape(line.title or "(no title)")}</a><span class="sub">{_below_title(line)}</span></td>'
        f'<td class="n">{compact(line.read + line.written)}</td><td class="n">{money(line.cost)}</td>'
        f'<td class="n"><time>{ago(line.updated, now)}</time></td>'
        f'<td class="pick"><input type="checkbox" aria-label="Compare {name}" title="Pick two to compare"></td></tr>'
    )


def _below_title(line: SessionLine) -> str:
    parts = [line.platform, line.model, plural(line.turns, "turn")]
    if line.children:
        parts.append("1 child" if line.children == 1 else f"{line.children} children")
    if line.principal:
        parts.append(f"for {line.principal}")
    badge = f'<b class="badge">{plural(line.waiting, "question")}</b> ' if line.waiting else ""
    failed = f' · <em class="bad">{line.failed} failed</em>' if line.failed else ""
    error = f' · <em class="bad">{escape(line.error)}</em>' if line.error else ""
    return f"{badge}{escape(' · '.join(part for part in parts if part))}{failed}{error}"


# -- figures as ``format.js`` writes them ---------------------------------------------------------------------------


def compact(number: int) -> str:
    """A count in at most five characters."""
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1e3:.{1 if number < 10_000 else 0}f}k"
    return f"{number / 1e6:.1f}M"


def money(usd: float | None) -> str:
    """Dollars; small amounts with more digits."""
    if usd is None:
        return ""
    return "$0" if usd == 0 else f"${usd:.{2 if usd >= 0.1 else 4}f}"


def ago(at: float, now: float) -> str:
    """How long ago something was, and after a week its day."""
    seconds = now - at
    if seconds < 60:
        return "just now"
    for length, most, unit in ((60, 3600, "min"), (3600, 86_400, "h"), (86_400, 7 * 86_400, "d")):
        if seconds < most:
            return f"{int(seconds // length)} {unit} ago"
    return time.strftime("%Y-%m-%d", time.localtime(at))


def plural(number: int, word: str) -> str:
    """A count with its word."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
