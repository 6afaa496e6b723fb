"""Reports as one HTML file, without scripts and without anything to load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.3rem .6rem;text-align:left}"
    "pre{background:#f6f6f6;padding:.6rem;overflow:auto}ins{background:#d8f5d8;text-decoration:none;display:block}"
    "del{background:#fbdcdc;text-decoration:none;display:block}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#242424}"
    "ins{background:#1d3d1d}del{background:#4a2020}}"
)


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document."""
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    begin = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><h1>{escape(title)}</h1>'
    return f"{begin}\n{body}\n</body></html>\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; every cell is text."""
    head = "".join(f"<th>{escape(name)}</th>" for name in headings)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def diff_block(heading: str, lines: Iterable[str]) -> str:
    """A small diff under its place."""
    shown = "".join(_line(line) for line in lines)
    return f"<h3>{escape(heading)}</h3><pre>{shown}</pre>"


def _line(line: str) -> str:
    text, mark = escape(line.strip("\n")), line.strip()[:1]
    if mark == "+":
        return f"<ins>{text}</ins>"
    return f"<del>{text}</del>" if mark == "-" else f"{text}\n"
