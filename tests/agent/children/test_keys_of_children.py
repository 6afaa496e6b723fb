"""Children that work at the same time ask with different keys of the provider they share."""

from __future__ import annotations

import threading
from pathlib import Path

from hermes.base.config.schema.sections import Config, ModelConfig, ModelProviderConfig
from hermes.host import Host
from hermes.models.credentials.store import AuthFile, add_key
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call

KEYS = {f"sk-of-the-pool-{number}" for number in range(3)}
GOALS = ["count the words", "find the file", "read the notes"]


def test_parallel_children_take_different_keys(home: Path, workdir: Path) -> None:
    for key in sorted(KEYS):
        add_key(AuthFile(home), "lab", key, key)
    used: dict[str, str] = {}
    all_are_asking = threading.Event()

    def answer(request: RecordedRequest) -> ScriptedReply:
        goal = next(message["content"] for message in request.messages if message["role"] == "user")
        if goal in GOALS:
            used[goal] = request.headers["authorization"].removeprefix("Bearer ")
            if set(used) == set(GOALS):
                all_are_asking.set()
            return text("it is done", hold=all_are_asking)
        tasks = [{"goal": one} for one in GOALS]
        return text("done") if request.step else tool_call("delegate_task", {"tasks": tasks})

    with ScriptedProvider(answer) as provider:
        config = Config(
            model=ModelConfig(provider="lab", default="scripted"),
            providers={"lab": ModelProviderConfig(base_url=provider.base_url)},
        )
        with Host(home, config, cwd=workdir, env={}) as host:
            assert host.new_session().run("go").answer == "done"
    assert set(used) == set(GOALS)
    assert set(used.values()) == KEYS
