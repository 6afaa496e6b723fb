"""Lets a watcher join the hooks of a host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hermes.trace.otel.content import Content
from hermes.trace.otel.watcher import HOOKS, Pipeline, Watcher, Watching


def watch(ctx: Any, open_pipeline: Callable[[], Pipeline], how: Watching, *, content: bool) -> Watcher:
    """Watch every turn for the plugin whose ``ctx`` it is. The signatures decide what the runtime copies for it.

    ``content``: tell what was said too.
    """
    watcher = Watcher(open_pipeline, how)
    teller = Content(watcher) if content else None
    for name in teller.ENDINGS if teller else ():
        ctx.register_hook(name, getattr(teller, name))
    for name in HOOKS:
        ctx.register_hook(name, getattr(watcher, name))
    for name in teller.BEGINNINGS if teller else ():
        ctx.register_hook(name, getattr(teller, name))
    return watcher
