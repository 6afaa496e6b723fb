"""Form that asks for the token, as an HTML document."""

from __future__ import annotations

from html import escape

from hermes.surfaces.web.documents.assets import version
from hermes.surfaces.web.documents.frame import document


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
