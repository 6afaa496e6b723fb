"""A plugin that looks at one compatibility module, for tests of what is behind the name."""

from __future__ import annotations

from typing import Any

from support.plugin_rig import Rig


def namespace(rig: Rig, name: str, *others: str) -> Any:
    """A compatibility module, as a loaded plugin has it."""
    for other in others:
        rig.write(f"other{len(other)}", other)
    rig.write("looks", f"import {name} as m\ndef register(ctx): ctx.register_command('module', lambda raw: m)", "")
    names = ["looks", *(f"other{len(other)}" for other in others)]
    plugins = rig.load(enabled=names)
    assert [record.error for record in plugins if record.manifest.key in names] == [""] * len(names)
    return plugins.commands["module"].handler("")
