"""Scaffold of a new plugin: a manifest, a hook, a README and a test that passes."""

from __future__ import annotations

import re
from pathlib import Path

from hermes.base.errors import PluginError

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")

_MANIFEST = """\
manifest_version: 1
name: {name}
version: 0.1.0
description: Logs every tool call with its outcome and how long it took.
# author: you
# kind: standalone            # backend, exclusive, platform or model-provider for plugins that are one
# requires_env:               # asked for by 'hermes plugins install'
#   - name: {variable}_TOKEN
#     description: What it is for and where to get it.
#     secret: true
provides_hooks:
  - post_tool_call
"""

_CODE = '''\
"""Logs every tool call with its outcome and how long it took."""

import logging

log = logging.getLogger(__name__)


def register(ctx):
    """Called once, when the plugin is loaded."""
    ctx.register_hook("post_tool_call", on_tool_call)


def on_tool_call(tool_name, status, duration_ms, **fields):
    """Called after every tool call. Name the fields you use; **fields takes the others."""
    log.info("%s: %s after %s ms", tool_name, status, duration_ms)
'''

_TEST = '''\
"""What the plugin does when it is called, on real hooks."""

import logging
from pathlib import Path

from hermes.testing import PluginHarness

PLUGIN = Path(__file__).parent.parent


def test_every_tool_call_is_logged(caplog):
    with PluginHarness(PLUGIN) as harness, caplog.at_level(logging.INFO):
        assert harness.plugin.hooks == ["post_tool_call"]
        harness.fire("post_tool_call", tool_name="terminal", status="ok", duration_ms=12, args={{}}, result="")
    assert "terminal: ok after 12 ms" in caplog.messages


def test_fields_that_come_later_do_not_break_it():
    with PluginHarness(PLUGIN) as harness:
        harness.fire("post_tool_call", tool_name="terminal", status="ok", duration_ms=12, something_new=1)
        assert harness.plugins.counters()["{name}"].failures == 0
'''

_README = """\
# {name}

A Hermes plugin. It logs every tool call with its outcome and how long it took; `hermes logs -f` shows it.

```console
$ hermes plugins check {folder}          # manifest and names, without running anything
$ python -m pytest {folder}              # its own tests
$ hermes plugins install ./{folder} --enable
```

`plugin.yaml` describes the plugin, `__init__.py` is its code, `tests/` holds its tests.
"""


def write_scaffold(name: str, parent: Path) -> Path:
    """Write a new plugin into a folder of its own below ``parent`` and return that."""
    if not _NAME.fullmatch(name):
        raise PluginError(
            f"{name!r} cannot be the name of a new plugin; use a-z and 0-9, with single - or _ in between"
        )
    folder = parent / name.replace("-", "_")  # Python can import that, so that tests can too
    if folder.exists():
        raise PluginError(f"{folder} is there already; choose another name or another --path")
    values = {"name": name, "folder": folder.name, "variable": folder.name.upper()}
    files = {
        "plugin.yaml": _MANIFEST,
        "__init__.py": _CODE,
        "README.md": _README,
        f"tests/test_{folder.name}.py": _TEST,
    }
    try:
        (folder / "tests").mkdir(parents=True)
        for path, text in files.items():
            (folder / path).write_text(text if path == "__init__.py" else text.format(**values), "utf-8")
    except OSError as error:
        raise PluginError(f"{folder}: cannot be written: {error.strerror}") from None
    return folder
