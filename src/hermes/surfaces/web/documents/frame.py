"""HTML frame of the page: navigation, colours and scripts around a view, with the data of the first view."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

from hermes.surfaces.web.documents.assets import FIRST, style, version

_encode = msgspec.json.Encoder().encode

_NAVIGATION = (
    ("", "Sessions"),
    ("approvals", "Approvals"),
    ("costs", "Costs"),
    ("plugins", "Plugins"),
    ("compare", "Compare"),
)
_CURRENT = ' aria-current="page"'
_NO_SCRIPT = '<noscript><p class="no-script">JavaScript is off: this is the state when it was loaded.</p></noscript>'


def document(title: str, head: str, body: str, theme: str = "") -> str:
    """A whole HTML document. Without a theme it has the colours that the browser prefers."""
    meta = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
    )
    chosen = f' data-theme="{theme}"' if theme else ""
    whole = f"<head>{meta}<title>{escape(title)}</title>{head}</head>\n{body}"
    return f'<!doctype html>\n<html lang="en"{chosen}>{whole}</html>\n'


def embedded(data: object) -> str:
    """Data for a script, as an element that no browser runs and no text inside can end."""
    return f'<script type="application/json" id="data">{json_text(data)}</script>'


def json_text(data: object) -> str:
    """JSON that may stand inside HTML."""
    return _encode(data).decode().replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class ViewFrame(msgspec.Struct, frozen=True):
    """What surrounds a view: navigation, colours, style and scripts."""

    #: The address of the page, and that of its server, whose files are the same after a restart.
    root: str
    server_root: str
    #: Below the page, without slashes at its ends.
    path: str = ""
    theme: str = ""

    def page(self, title: str, data: object, main: str, scripts: Sequence[str] = (FIRST,)) -> str:
        """The document. ``main`` is its content until the first of the ``scripts`` runs.

        A browser can paint it without another request. The script draws the same elements, and takes these over.
        """
        static = f"{escape(self.server_root)}/static/{version()}"
        head = (
            f"<style>{style()}</style>"
            f'<link rel="icon" href="{static}/icon.svg" type="image/svg+xml">'
            f'<script type="module" src="{static}/{scripts[0]}"></script>'
            + "".join(f'<link rel="modulepreload" href="{static}/{name}">' for name in scripts[1:])
        )
        body = f'<body><div id="app" class="app">{self._header()}{main}</div>{_NO_SCRIPT}{embedded(data)}</body>'
        return document(f"{title} · Hermes", head, body, self.theme)

    def _header(self) -> str:
        """The navigation, as ``main.js`` draws it."""
        root, chosen = escape(self.root), self.theme or "auto"
        links = "".join(
            f'<a href="{root}/{there}"{_CURRENT if there == self.path else ""}>{name}</a>'
            for there, name in _NAVIGATION
        )
        return (
            f'<header class="top"><a class="brand" href="{root}/"><span class="logo"></span>Hermes</a>'
            f'<nav>{links}</nav><button class="theme {chosen}" title="Colours: {chosen}" '
            f'aria-label="Colours: {chosen}"><i></i></button></header>'
        )


def other_frame(problem: str = "") -> str:
    """A view whose content only the script draws, or why it has none."""
    if problem:
        return f'<main class="narrow"><p class="problem" role="alert">{escape(problem)}</p></main>'
    return '<p class="empty needs-script">Loading…</p>'


def problem_page(root: str, text: str) -> str:
    """What is wrong with the journal."""
    head = f'<link rel="stylesheet" href="{escape(root)}/static/style.css">'
    body = (
        f'<body><main class="sign-in"><h1>Hermes</h1><p class="problem" role="alert">{escape(text)}</p></main></body>'
    )
    return document("Hermes", head, body)


def sign_in_page(root: str, problem: str = "") -> str:
    """The form that asks for the token."""
    said = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    form = (
        f'<form method="post" action="{escape(root)}/sign-in"><label>Token '
        '<input name="token" type="password" autocomplete="current-password" required autofocus></label> '
        '<button class="primary">Sign in</button></form>'
    )
    text = "<p>Open the address that <code>hermes web</code> printed, or enter the token in it.</p>"
    static = f"{escape(root)}/static/{version()}"
    head = f'<link rel="stylesheet" href="{static}/style.css"><script type="module" src="{static}/sign_in.js"></script>'
    return document(
        "Sign in · Hermes", head, f'<body><main class="sign-in"><h1>Hermes</h1>{said}{text}{form}</main></body>'
    )
