"""Runs of every kind, each seen twice: by a collector while it happened, and in the journal afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.agent.session import Session
from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, FallbackConfig, ModelConfig, ModelProviderConfig
from hermes.base.scope import Interrupt, Scope
from hermes.host import Host, HostOptions
from hermes.plugins.llm.access import PluginLlm
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, failure, hanging, reasoning, text, tool_call
from hermes.testing import tool_calls as calls
from hermes.tools.registry import Tool, ToolContext
from hermes.trace.collector import Collector
from hermes.trace.journal.session import session_record
from hermes.trace.records import SessionRecord
from support.llm_rig import recorded, working_in

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
#: Fields that no record is made from.
UNUSED_FIELDS = frozenset({"request", "request_messages", "response", "middleware_trace", "child_summary"})
#: A key that no record may show.
SECRET = "sk-proj-" + "Ab3" * 14
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
PARAGRAPH = "Nobody expects so many words about so little. " * 80


@dataclass(frozen=True, slots=True)
class Run:
    """One session that is over."""

    live: SessionRecord
    stored: SessionRecord


class Rig:
    """A home, a working directory and a host with a collector on every hook."""

    def __init__(self, home: Path, workdir: Path, stack: ExitStack) -> None:
        self.home, self.workdir = home, workdir
        self.stack = stack
        self.collector = Collector()

    def host(self, script: Any, *, retries: int = 0, **options: Any) -> Host:
        provider = self.stack.enter_context(ScriptedProvider(script))
        model = ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key")
        return self.host_for(Config(model=model, agent=AgentConfig(api_max_retries=retries)), **options)

    def host_for(self, config: Config, **options: Any) -> Host:
        host = self.stack.enter_context(Host(self.home, config, HostOptions(**options), cwd=self.workdir, env={}))
        host.hooks.subscribe_events("trace", self.collector.take, leave_out=UNUSED_FIELDS)
        return host

    def run(self, host: Host, session_id: str) -> Run:
        live = self.collector.session(session_id)
        assert live is not None
        failures = [one.last_error for one in host.hooks.stats() if one.failures]
        assert failures == []
        return Run(live, session_record(host.store, session_id))


Scenario = Callable[[Rig], Run]


def one_tool(rig: Rig) -> Run:
    (rig.workdir / "a").write_text(f"key {SECRET}\n")
    host = rig.host([tool_call("read_file", {"path": "a"}, usage=USAGE), text("ok", usage=USAGE)])
    session = host.new_session()
    session.run(f"Read a with {SECRET}.")
    return rig.run(host, session.id)


def thinking(rig: Rig) -> Run:
    host = rig.host([reasoning("Let me think.", "Four.", usage=USAGE)])
    session = host.new_session()
    session.run("What is 2 + 2?")
    return rig.run(host, session.id)


def parallel_tools_reversed(rig: Rig) -> Run:
    """The first call ends only when the second has."""
    second_is_over = threading.Event()

    def wait(_args: object, _context: object) -> str:
        second_is_over.wait(60)
        return '{"who": "first"}'

    def hurry(_args: object, _context: object) -> str:
        return '{"who": "second"}'

    host = rig.host([calls([("wait", {}), ("hurry", {})], usage=USAGE), text("done", usage=USAGE)], toolsets=["race"])
    for name, run in (("wait", wait), ("hurry", hurry)):
        host.tools.add(Tool(name, "race", "", NO_PARAMETERS, run, "pure", parallel=True))

    def tell(tool_name: str) -> None:
        if tool_name == "hurry":
            second_is_over.set()

    host.hooks.subscribe("post_tool_call", "race", tell)
    session = host.new_session()
    session.run("go")
    return rig.run(host, session.id)


def _parent_or_child(request: RecordedRequest) -> Any:
    first = next(message["content"] for message in request.messages if message["role"] == "user")
    if first == "go":
        args = {"tasks": [{"goal": "left"}, {"goal": "right"}]}
        return by_step(
            tool_call("delegate_task", args, call_id="call_d", usage=USAGE), text("parent done", usage=USAGE)
        )(request)
    return by_step(tool_call("terminal", {"command": "printf leaf"}, usage=USAGE), text("leaf", usage=USAGE))(request)


def delegated_children(rig: Rig) -> Run:
    host = rig.host(_parent_or_child, toolsets=["delegation", "terminal"])
    session = host.new_session()
    session.run("go")
    return rig.run(host, session.id)


def approval(rig: Rig) -> Run:
    from hermes.testing import ScriptedResponder
    from support.approval_rig import RISKY, says

    host = rig.host([tool_call("terminal", {"command": RISKY}), text("did it")])
    session = host.new_session()
    host.responders.attach(session.id, ScriptedResponder(says("once")))
    session.run("go")
    return rig.run(host, session.id)


def answered_later(rig: Rig, *, restarts: bool = False) -> Run:
    """The turn is suspended by its question, and goes on with the answer: here, or in another process."""
    from hermes.base.errors import TurnSuspended
    from hermes.journal.questions import Questions
    from hermes.testing import ScriptedResponder
    from support.approval_rig import RISKY

    script = by_step(tool_call("terminal", {"command": RISKY}), text("did it"))
    host = rig.host(script)
    session = host.new_session()
    host.responders.attach(session.id, ScriptedResponder(TurnSuspended()))
    with suppress(TurnSuspended):
        session.run("go")
    if restarts:
        host.close()
        host = rig.host(script)
        session = host.resume_session(session.id)
    [row] = Questions(host.store).pending()
    Questions(host.store).answer(row.id, "once", by="ada")
    result = session.finish_open_turn()
    assert result is not None and result.answer == "did it"
    return rig.run(host, session.id)


def denied(rig: Rig) -> Run:
    from hermes.testing import ScriptedResponder
    from support.approval_rig import RISKY, says

    host = rig.host([tool_call("terminal", {"command": RISKY}), text("I may not.")])
    session = host.new_session()
    host.responders.attach(session.id, ScriptedResponder(says("deny", "no")))
    session.run("go")
    return rig.run(host, session.id)


def error_and_retry(rig: Rig) -> Run:
    host = rig.host([failure(503, f"busy {SECRET}", headers={"retry-after": "0"}), text("ok", usage=USAGE)], retries=1)
    session = host.new_session()
    session.run("go")
    return rig.run(host, session.id)


def fallback(rig: Rig) -> Run:
    first = rig.stack.enter_context(ScriptedProvider([failure(500)]))
    second = rig.stack.enter_context(ScriptedProvider(text("from the second", model="scripted-2", usage=USAGE)))
    config = Config(
        model=ModelConfig(provider="one", default="large"),
        providers={
            "one": ModelProviderConfig(base_url=first.base_url, api_key="key-of-one"),
            "two": ModelProviderConfig(base_url=second.base_url, api_key="key-of-two", model_map={"large": "scripted"}),
        },
        fallback_providers=[FallbackConfig(provider="two")],
        agent=AgentConfig(api_max_retries=0),
    )
    host = rig.host_for(config)
    session = host.new_session()
    session.run("go")
    return rig.run(host, session.id)


def final_error(rig: Rig) -> Run:
    host = rig.host([failure(400, "no such thing")])
    session = host.new_session()
    session.run("go")
    return rig.run(host, session.id)


def interrupted_turn(rig: Rig) -> Run:
    interrupt = Interrupt()
    provider = rig.stack.enter_context(ScriptedProvider([hanging()]))
    model = ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key")
    host = rig.host_for(Config(model=model))
    session = host.new_session()
    canceller = threading.Thread(target=lambda: (provider.wait_for_request(), interrupt.cancel("stop")))
    canceller.start()
    session.run("hi", interrupt=interrupt)
    canceller.join()
    return rig.run(host, session.id)


def compaction(rig: Rig) -> Run:
    def answer(request: RecordedRequest) -> Any:
        is_side_job = request.messages[0]["content"].startswith("You condense")
        return text("They spoke of little.") if is_side_job else text("Good.", usage=None)

    host = rig.host(answer, toolsets=["file"])
    host.config.model.context_length = 16_000
    session = host.new_session()
    for number in range(10):
        session.run(f"Message {number}. {PARAGRAPH}")
    return rig.run(host, session.id)


def steered_and_out_of_steps(rig: Rig) -> Run:
    host = rig.host([tool_call("say", {}), text("enough", usage=USAGE)], toolsets=["talk"], max_turns=1)

    def say(_args: object, context: ToolContext) -> str:
        session = host.open_sessions.get(context.scope.session_id)
        assert session is not None and session.steer("Be brief.")
        return "{}"

    host.tools.add(Tool("say", "talk", "", NO_PARAMETERS, say, "pure"))
    session = host.new_session()
    session.run("go")
    return rig.run(host, session.id)


def plugin_makes_a_call(rig: Rig) -> Run:
    (rig.workdir / "a").write_text("a")
    host = rig.host([text("ok", usage=USAGE)])

    def look(**_: Any) -> None:
        host.services.dispatch_tool("read_file", {"path": "a"})

    host.hooks.subscribe("pre_api_request", "looker", look)
    session = host.new_session()
    session.run("go")
    return rig.run(host, session.id)


def two_at_once(rig: Rig) -> list[Session]:
    """Two conversations whose equal calls meet while both are under way."""
    meet = threading.Barrier(2)

    def wait(_args: object, _context: object) -> str:
        meet.wait(60)
        return "{}"

    def script(request: Any) -> Any:
        done = any(message["role"] == "tool" for message in request.messages)
        return text("done") if done else tool_call("wait", {}, call_id="call_0")

    host = rig.host(script, toolsets=["own"])
    host.tools.add(Tool("wait", "own", "", NO_PARAMETERS, wait, "pure"))
    sessions = [host.new_session(), host.new_session()]
    threads = [threading.Thread(target=session.run, args=("go",)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sessions


def two_turns_with_context(rig: Rig) -> Run:
    host = rig.host(["one", "two"])

    def advise() -> dict[str, str]:
        return {"context": "It is Monday."}

    host.hooks.subscribe("pre_llm_call", "adviser", advise)
    session = host.new_session()
    session.run("first")
    session.run("second")
    return rig.run(host, session.id)


def plugin_asks_a_model(rig: Rig) -> Run:
    """Once in a turn, and once between two, as a command does."""
    host = rig.host(text("ok", usage=USAGE))
    session = host.new_session()
    turn_id = session.run("Go.").turn_id
    llm = PluginLlm("acme", host.services.llm)
    for scope in (Scope(session_id=session.id, turn_id=turn_id), Scope(session_id=session.id)):
        with working_in(scope):
            llm.complete([{"role": "user", "content": "?"}])
    session.run("Go on.")
    assert len(recorded(host)) == 2
    return rig.run(host, session.id)


SCENARIOS: tuple[Scenario, ...] = (
    one_tool,
    thinking,
    parallel_tools_reversed,
    delegated_children,
    approval,
    denied,
    error_and_retry,
    fallback,
    final_error,
    interrupted_turn,
    compaction,
    steered_and_out_of_steps,
    plugin_makes_a_call,
    two_turns_with_context,
    plugin_asks_a_model,
)
