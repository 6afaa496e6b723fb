"""Scaffold of a new plugin: a manifest with a setting, a hook, a tool, a README and tests that pass."""

from __future__ import annotations

import re
from pathlib import Path

from hermes.base.errors import PluginError

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")

_MANIFEST = """\
manifest_version: 1
name: {name}
version: 0.1.0
description: Counts tool calls for the model, and logs those that take long.
# author: you
# kind: standalone            # backend, exclusive, platform or model-provider for plugins that are one
# requires_env:               # asked for by 'hermes plugins install'
#   - name: {variable}_TOKEN
#     description: What it is for and where to get it.
#     secret: true
requires_hermes: ">=0.21"     # the version of the plugin contract
provides_hooks:
  - post_tool_call
provides_tools:
  - {tool}
config_schema:                # set with: hermes config set plugins.entries.{name}.settings.slow_ms 500
  slow_ms: {type: int, default: 1000, description: Calls that take so many milliseconds are logged.}
"""

_CODE = '''\
"""Counts tool calls for the model, and logs those that take long."""

import json
import logging
from collections import Counter
from threading import Lock

log = logging.getLogger(__name__)

#: What the model is told of the tool.
SCHEMA = {
    "description": "How often each tool was called since the start.",
    "parameters": {"type": "object", "properties": {}},
}


def register(ctx):
    """Called once, when the plugin is loaded."""
    calls = ToolCalls(ctx.get_config("slow_ms"))
    ctx.register_hook("post_tool_call", calls.on_tool_call)
    ctx.register_tool("{tool}", "{folder}", SCHEMA, calls.show, effect="pure")


class ToolCalls:
    """The calls so far."""

    def __init__(self, slow_ms):
        self._slow_ms = slow_ms
        self._counts = Counter()
        self._lock = Lock()  # sessions run on threads of their own

    def on_tool_call(self, tool_name, duration_ms, **fields):
        """Called after every tool call. Name the fields you use; **fields takes the others."""
        with self._lock:
            self._counts[tool_name] += 1
        if duration_ms >= self._slow_ms:
            log.info("%s took %s ms", tool_name, duration_ms)

    def show(self, args, **keywords):
        """The tool: it takes the arguments of the model and returns JSON."""
        with self._lock:
            return json.dumps({"calls": self._counts})
'''

_TEST = '''\
"""What the plugin does when it is called, on real hooks."""

import json
import logging
from pathlib import Path

from hermes.testing import PluginHarness

PLUGIN = Path(__file__).parent.parent


def test_calls_that_take_long_are_logged(caplog):
    with PluginHarness(PLUGIN, settings={"slow_ms": 10}) as harness, caplog.at_level(logging.INFO):
        harness.fire("post_tool_call", tool_name="terminal", status="ok", duration_ms=12, args={}, result="")
        harness.fire("post_tool_call", tool_name="read_file", status="ok", duration_ms=9, args={}, result="")
    assert caplog.messages == ["terminal took 12 ms"]


def test_the_model_can_ask_for_the_counts():
    with PluginHarness(PLUGIN) as harness:
        harness.fire("post_tool_call", tool_name="terminal", status="ok", duration_ms=12, args={}, result="")
        assert json.loads(harness.call_tool("{tool}", {})) == {"calls": {"terminal": 1}}


def test_fields_that_come_later_do_not_break_it():
    with PluginHarness(PLUGIN) as harness:
        harness.fire("post_tool_call", tool_name="terminal", status="ok", duration_ms=12, something_new=1)
        assert harness.plugins.counters()["{name}"].failures == 0
'''

_README = """\
# {name}

A Hermes plugin. It counts tool calls, which the model can ask for, and logs those that take long (`hermes logs -f`).

```console
$ hermes plugins check {folder}          # manifest and names, without running anything
$ python -m pytest {folder}              # its own tests
$ hermes plugins install ./{folder} --enable
```

`plugin.yaml` describes the plugin and its settings, `__init__.py` is its code, `tests/` holds its tests.
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
    values = {"name": name, "folder": folder.name, "variable": folder.name.upper(), "tool": f"{folder.name}_calls"}
    files = {
        "plugin.yaml": _MANIFEST,
        "__init__.py": _CODE,
        "README.md": _README,
        f"tests/test_{folder.name}.py": _TEST,
    }
    try:
        (folder / "tests").mkdir(parents=True)
        for path, text in files.items():
            for word, value in values.items():
                text = text.replace(f"{{{word}}}", value)
            (folder / path).write_text(text, "utf-8")
    except OSError as error:
        raise PluginError(f"{folder}: cannot be written: {error.strerror}") from None
    return folder
