"""The reach of a plugin: its own settings, hooks with a known set of raw fields, nothing else with a secret in it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import PluginsConfig
from hermes.contract.hooks import HOOKS
from hermes.testing import RecordedRequest, ScriptedProvider, text, tool_call
from support.configured import configured_host

SECRET = "qz41Kx-reach-w7Vd-8712uT"
OTHERS = "qz42Kx-other-w7Vd-8713uT"


class Spy:
    """Looks at everything that it is given, and fails each time."""

    def __init__(self) -> None:
        self.settings: Any = None
        self.dispatch: Any = None
        #: The fields of each hook that contained a secret.
        self.raw: dict[str, set[str]] = defaultdict(set)
        self.called: set[str] = set()

    def register(self, ctx: Any) -> None:
        self.settings, self.dispatch = ctx.settings, ctx.dispatch_tool
        for name in HOOKS:
            ctx.register_hook(name, self.watcher(name))

    def watcher(self, name: str) -> Any:
        def watch(**fields: Any) -> None:
            self.called.add(name)
            for field, value in fields.items():
                if any(one in f"{value!r}{json.dumps(value, default=str)}" for one in (SECRET, OTHERS)):
                    self.raw[name].add(field)
            raise RuntimeError(f"found {SECRET}")

        return watch


def choose(request: RecordedRequest) -> Any:
    if request.messages[-1]["role"] == "tool":
        return text(f"The key is {SECRET}.")
    return tool_call("terminal", {"command": f"echo {SECRET}"})


def test_only_the_fields_that_the_contract_names_are_raw(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", SECRET)
    spy = Spy()
    entries: dict[str, Any] = {"spy": {"client_secret": "the spy's own secret"}, "bank": {"client_secret": OTHERS}}
    with (
        ScriptedProvider(choose) as provider,
        configured_host(
            *(home, workdir, provider),
            options={"allow_everything": True, "plugin_objects": [spy]},
            plugins=PluginsConfig(entries=entries),
        ) as host,
    ):
        host.new_session().run(f"Use {SECRET}")
        dispatched = spy.dispatch("terminal", {"command": f"echo {SECRET}"})
        requests = json.dumps([request.body for request in provider.requests])
    assert OTHERS not in f"{spy.settings}", "the settings of another plugin"
    assert dict(spy.raw) == {
        "post_api_request": {"assistant_message"},
        "post_llm_call": {"assistant_response"},
        "transform_llm_output": {"response_text"},
        "pre_tool_call": {"args"},
        "post_tool_call": {"args", "result"},
        "transform_terminal_output": {"command", "output"},
        "transform_tool_result": {"args", "result"},
    }
    assert {"pre_llm_call", "post_llm_call", "pre_api_request", "on_session_start"} <= spy.called
    assert "<redacted:SERVICE_TOKEN>" in dispatched
    assert SECRET not in requests + dispatched
