"""The Python API against a real model server on loopback and a real journal."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import hermes
from hermes import Agent, ApprovalAnswer, ApprovalRequest, Interrupt, TextRestarted, tool
from hermes.contract.events import TextDelta, TextWithdrawn
from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call
from support.left_turn import COMMAND, check_taken_up_once, leave_turn


def _broken(_ctx: Any) -> None:
    raise RuntimeError("no reason")


@contextmanager
def agent_with(script: Any, workdir: Path, **options: Any) -> Generator[tuple[Agent, ScriptedProvider]]:
    with (
        ScriptedProvider(script) as provider,
        Agent(model="scripted", base_url=provider.base_url, api_key="test-key-1234", cwd=workdir, **options) as agent,
    ):
        yield agent, provider


def test_the_public_names_are_these() -> None:
    assert sorted(hermes.__all__) == [
        "Agent",
        "AgentSession",
        "ApprovalAnswer",
        "ApprovalRequest",
        "AsyncTurnStream",
        "Config",
        "ConfigError",
        "HermesError",
        "Interrupt",
        "Interrupted",
        "JournalError",
        "OutputError",
        "PluginError",
        "ProviderError",
        "SessionBusy",
        "SessionNotFound",
        "TextRestarted",
        "TurnEvent",
        "TurnFailed",
        "TurnResult",
        "TurnStream",
        "Usage",
        "__version__",
        "events",
        "tool",
    ]
    assert {name: getattr(hermes, name) for name in hermes.__all__}.keys() <= set(dir(hermes))
    with pytest.raises(AttributeError, match="has no attribute 'Host'"):
        _ = hermes.Host  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, hermes; print(sorted(name for name in sys.modules if name.startswith('hermes')))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "['hermes']\n"


def test_a_message_is_answered_and_recorded(workdir: Path) -> None:
    with agent_with([text("Paris."), text("About two million.")], workdir) as (agent, provider):
        session = agent.session()
        first = session.run("What is the capital of France?")
        second = agent.session(session.id).run("How many people live there?")
    assert (first.status, first.answer, second.answer) == ("completed", "Paris.", "About two million.")
    assert first.raise_for_status() is first
    assert [message["role"] for message in provider.requests[1].messages] == ["system", "user", "assistant", "user"]
    assert provider.requests[0].headers["authorization"] == "Bearer test-key-1234"


def test_what_is_recorded_can_be_opened_by_another_agent(workdir: Path) -> None:
    with agent_with([text("One.")], workdir) as (agent, _):
        session = agent.session()
        session.run("Count.")
    with agent_with([text("Two.")], workdir) as (agent, provider):
        again = agent.session(session.id)
        assert [message["role"] for message in again.messages] == ["user", "assistant"]
        assert again.run("And on.").answer == "Two."
    assert len(provider.requests[0].messages) == 4


@pytest.mark.parametrize("message", [None, 3, {"text": "hi"}, ["hi"], [{"type": 1}], [{"type": "text"}]])
def test_a_message_of_another_kind_is_refused_and_not_recorded(workdir: Path, message: Any) -> None:
    with agent_with([text("Hello.")], workdir) as (agent, _):
        session = agent.session()
        with pytest.raises(TypeError, match="a message is text"):
            session.run(message)
        assert session.run("hi").answer == "Hello."


@pytest.mark.parametrize("message", ["", " \n", []])
def test_an_empty_message_is_refused(workdir: Path, message: Any) -> None:
    with agent_with([], workdir) as (agent, _), pytest.raises(hermes.HermesError, match="the message is empty"):
        agent.run(message)


def test_a_closed_agent_says_so(workdir: Path) -> None:
    with agent_with([text("Hello.")], workdir) as (agent, _):
        session = agent.session()
        session.run("hi")
        agent.close()
        uses: list[Callable[[], Any]] = [
            agent.session,
            session.finish,
            lambda: agent.run("x"),
            lambda: session.run("x"),
        ]
        for use in uses:
            with pytest.raises(hermes.HermesError, match="this agent was closed"):
                use()


def test_a_folder_that_is_not_there_is_named(workdir: Path) -> None:
    with pytest.raises(hermes.HermesError, match="missing is not a folder"):
        hermes.Agent(cwd=workdir / "missing")


def test_the_same_idempotency_key_runs_once(workdir: Path) -> None:
    with agent_with([text("Once.")], workdir) as (agent, provider):
        session = agent.session()
        answers = [session.run("Do it.", request_key="order-7").answer for _ in range(2)]
    assert answers == ["Once.", "Once."]
    assert len(provider.requests) == 1


def test_settings_on_top_of_the_home(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("agent:\n  max_turns: 7\n  system_prompt: From the file.\n")
    with agent_with([text("Yes.")], workdir, config={"agent": {"system_prompt": "Be brief."}}) as (agent, provider):
        agent.run("Hello?")
        assert agent._host.config.agent.max_turns == 7  # pyright: ignore[reportPrivateUsage]
    assert "Be brief." in provider.requests[0].messages[0]["content"]
    assert "From the file." not in provider.requests[0].messages[0]["content"]


def test_a_bad_setting_is_named(workdir: Path) -> None:
    with pytest.raises(hermes.ConfigError, match=r"agent\.max_turns"):
        Agent(config={"agent": {"max_turns": "many"}}, cwd=workdir)


def test_a_config_object_is_used_as_it_is(workdir: Path) -> None:
    with pytest.raises(hermes.HermesError, match="put base_url"):
        Agent(config=hermes.Config(), base_url="http://127.0.0.1:9/v1", cwd=workdir)


def test_variables_of_the_home_are_used_and_stay_out_of_the_process(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    with ScriptedProvider([text("Found it.")]) as provider:
        (home / ".env").write_text(f"CUSTOM_BASE_URL={provider.base_url}\nMY_KEY=from-the-env-file\n")
        (home / "config.yaml").write_text("model:\n  provider: custom\n  default: scripted\n  api_key: ${MY_KEY}\n")
        (home / ".env").chmod(0o600)
        with Agent(cwd=workdir) as agent:
            assert agent.run("Hello?").answer == "Found it."
    assert provider.requests[0].headers["authorization"] == "Bearer from-the-env-file"
    code = "import os; print('MY_KEY' in os.environ)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_a_key_for_another_provider_does_not_go_to_the_configured_address(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("model:\n  base_url: http://127.0.0.1:9/v1\n  default: scripted\n")
    with Agent(provider="openai", model="gpt-test", api_key="key-of-openai", cwd=workdir) as agent:
        model = agent._host.config.model  # pyright: ignore[reportPrivateUsage]
        assert (model.provider, model.base_url, model.api_key) == ("openai", "", "key-of-openai")
    with ScriptedProvider([text("Yes.")]) as provider:
        (home / "config.yaml").write_text(f"model:\n  base_url: {provider.base_url}\n  default: scripted\n")
        with Agent(api_key="another-key", cwd=workdir) as agent:
            agent.run("Hello?")
    assert provider.requests[0].headers["authorization"] == "Bearer another-key"


def test_a_failed_turn_is_a_result(workdir: Path) -> None:
    with agent_with([failure(401, "no such key")], workdir) as (agent, _):
        result = agent.run("Hello?")
        assert result.status == "failed"
        with pytest.raises(hermes.TurnFailed, match="401") as caught:
            result.raise_for_status()
    assert caught.value.result is result


def test_no_built_in_tools(workdir: Path) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with agent_with([text("Fine.")] * 3, workdir, toolsets=[], tools=[add]) as (agent, provider):
        agent.run("Which tools do you have?")
    assert [entry["function"]["name"] for entry in provider.requests[0].body["tools"]] == ["add"]
    with agent_with([text("Fine.")], workdir, toolsets=[]) as (agent, provider):
        agent.run("Which tools do you have?")
    assert "tools" not in provider.requests[0].body


def test_a_function_is_called_by_the_model(workdir: Path) -> None:
    @tool(effect="pure")
    def weather(city: str, days: int = 1) -> dict[str, Any]:
        """The weather of a city."""
        return {"city": city, "days": days, "sky": "clear"}

    script = [tool_call("weather", {"city": "Oslo"}), text("Clear.")]
    with agent_with(script, workdir, tools=[weather]) as (agent, provider):
        result = agent.run("Weather in Oslo?")
    assert [(call.tool_name, call.status) for call in result.tool_calls] == [("weather", "ok")]
    assert provider.requests[1].messages[-1]["content"] == '{"city":"Oslo","days":1,"sky":"clear"}'


def test_a_plugin_object_joins_the_host(workdir: Path) -> None:
    class Counter:
        """Counts tool calls."""

        name = "counter"

        def __init__(self) -> None:
            self.calls: list[str] = []

        def register(self, ctx: Any) -> None:
            ctx.register_hook("post_tool_call", self.count)

        def count(self, tool_name: str, **_fields: Any) -> None:
            self.calls.append(tool_name)

    counter = Counter()
    script = [tool_call("read_file", {"path": "a.txt"}), text("Read.")]
    with agent_with(script, workdir, plugins=[counter]) as (agent, _):
        agent.run("Read a.txt")
    assert counter.calls == ["read_file"]


def test_a_module_and_a_function_are_plugins_too(workdir: Path) -> None:
    seen: list[str] = []

    def registers(name: str) -> Any:
        def note(**_fields: Any) -> None:
            seen.append(name)

        def register(ctx: Any) -> None:
            ctx.register_hook("on_session_start", note)

        return register

    module = ModuleType("watcher")
    vars(module)["register"] = registers("module")
    with agent_with([text("Hi.")], workdir, plugins=[module, registers("function")]) as (agent, _):
        agent.run("Hello")
    assert seen == ["module", "function"]


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        ([object()], "no register"),
        ([SimpleNamespace(name="twice", register=print)] * 2, "two plugins called 'twice'"),
        ([SimpleNamespace(name="broken", register=_broken)], "'broken' cannot be loaded: .*no reason"),
        (["no-such-plugin"], "no-such-plugin"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_an_error(workdir: Path, plugins: list[Any], problem: str) -> None:
    with pytest.raises(hermes.PluginError, match=problem):
        Agent(plugins=plugins, cwd=workdir)


# -- streams and interrupts -----------------------------------------------------------------------------------------


def test_a_stream_yields_events_and_then_the_result(workdir: Path) -> None:
    script = [tool_call("read_file", {"path": "a.txt"}), text("one two", chunks=["one ", "two"])]
    with agent_with(script, workdir) as (agent, _):
        stream = agent.stream("Go.")
        kinds = [type(event).__name__ for event in stream]
        assert stream.result.answer == "one two"
        assert list(stream) == []
    assert kinds[0] == "TurnStarted"
    assert kinds.count("ToolStarted") == 1


def test_the_text_of_a_stream(workdir: Path) -> None:
    with agent_with([text("one two", chunks=["one ", "two"])], workdir) as (agent, _):
        assert list(agent.stream("Go.").text()) == ["one ", "two"]


def test_leaving_a_stream_interrupts_the_turn(workdir: Path) -> None:
    with agent_with([hanging()], workdir) as (agent, provider):
        session = agent.session()
        with session.stream("Go.") as stream:
            provider.wait_for_request()
        assert stream.result.status == "interrupted"
        with agent.session(session.id).stream("Go on.") as again:  # the session is free again
            again.interrupt()
            assert again.result.status == "interrupted"


def test_a_turn_is_interrupted_from_another_thread(workdir: Path) -> None:
    with agent_with([hanging(), hanging()], workdir) as (agent, provider):
        session = agent.session()
        threading.Thread(target=lambda: (provider.wait_for_request(), session.interrupt("enough")), daemon=True).start()
        assert session.run("Go.").status == "interrupted"
        interrupt = Interrupt()
        interrupt.cancel()
        assert session.run("Go.", interrupt=interrupt).status == "interrupted"


def test_a_turn_that_was_interrupted_is_finished_later(workdir: Path) -> None:
    with agent_with([hanging(), text("Done.")], workdir) as (agent, provider):
        session = agent.session()
        with session.stream("Go."):
            provider.wait_for_request()
        finished = session.finish()
        assert finished is not None and finished.answer == "Done."
        assert session.finish() is None


@pytest.mark.parametrize("continues", [True, False], ids=["finished", "given up"])
def test_a_turn_that_a_killed_program_left_is_finished_or_given_up(home: Path, workdir: Path, continues: bool) -> None:
    with ScriptedProvider([COMMAND, text("Done."), text("Next.")]) as provider:
        session_id = leave_turn(home, workdir, provider)
        options: dict[str, Any] = {"home": home, "base_url": provider.base_url, "api_key": "test-key-1234"}
        with Agent(model="scripted", cwd=workdir, **options) as agent:
            session = agent.session(session_id)
            result = session.finish() if continues else session.abandon()
            assert result is not None and result.status == ("completed" if continues else "interrupted")
            assert result.error == (None if continues else "given up: the program did not continue it")
            assert session.finish() is None and session.abandon() is None
            assert len(provider.requests) == (2 if continues else 1)
            session.run("And now?")
            check_taken_up_once(workdir, provider.requests[-1].messages)


def test_a_failing_stream_raises_when_its_result_is_read(workdir: Path) -> None:
    with agent_with([text("No."), text("No."), text("No.")], workdir) as (agent, _):
        stream = agent.stream("A number.", output=int)
        with pytest.raises(hermes.OutputError, match="not JSON"):
            _ = stream.result


# -- approvals ------------------------------------------------------------------------------------------------------

_DELETE = [tool_call("terminal", {"command": "rm -rf notes"}), text("As you say.")]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (True, "ok"),
        ("session", "ok"),
        (ApprovalAnswer("once"), "ok"),
        (False, "blocked"),
        ("deny", "blocked"),
        (ApprovalAnswer("deny", "not today"), "blocked"),
    ],
)
def test_a_callback_decides_about_calls(workdir: Path, answer: Any, status: str) -> None:
    (workdir / "notes").mkdir()
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Any:
        asked.append(request)
        return answer

    with agent_with(_DELETE, workdir, approve=approve) as (agent, _):
        result = agent.run("Clean up.")
    assert [call.status for call in result.tool_calls] == [status]
    assert [request.subject for request in asked] == ["rm -rf notes"]
    assert (workdir / "notes").exists() == (status == "blocked")


def test_without_a_callback_such_calls_are_denied(workdir: Path) -> None:
    (workdir / "notes").mkdir()
    with agent_with(_DELETE, workdir) as (agent, _):
        assert [call.status for call in agent.run("Clean up.").tool_calls] == ["blocked"]
    assert (workdir / "notes").exists()


def test_a_callback_that_returns_nonsense_does_not_approve(workdir: Path, caplog: pytest.LogCaptureFixture) -> None:
    (workdir / "notes").mkdir()

    def approve(_request: ApprovalRequest) -> Any:
        return "perhaps"

    with agent_with(_DELETE, workdir, approve=approve) as (agent, _):
        result = agent.run("Clean up.")
    assert (workdir / "notes").exists()
    assert [call.status for call in result.tool_calls] == ["blocked"]
    assert "the approve callback returned 'perhaps'" in caplog.text


def test_questions_of_the_model_are_answered(workdir: Path) -> None:
    script = [tool_call("clarify", {"question": "Which one?", "choices": ["a", "b"]}), text("Then b.")]
    asked: list[Any] = []

    def answer(question: str, choices: Any) -> str:
        asked.append((question, list(choices)))
        return "b"

    with agent_with(script, workdir, answer=answer) as (agent, provider):
        agent.run("Take one.")
    assert asked == [("Which one?", ["a", "b"])]
    assert '"b"' in provider.requests[1].messages[-1]["content"]


#: An answer that breaks off after its first words, and the same answer as a whole.
BROKEN = [text("Half of the answer, and more", chunks=8, truncate_after=700), text("The whole answer.")]


def test_a_stream_tells_that_text_was_withdrawn_and_goes_on(workdir: Path) -> None:
    with agent_with(BROKEN, workdir) as (agent, provider):
        stream = agent.stream("go")
        events = list(stream)
        assert stream.result.answer == "The whole answer."
    assert len(provider.requests) == 2
    kinds = [type(event) for event in events if isinstance(event, TextDelta | TextWithdrawn)]
    at = kinds.index(TextWithdrawn)
    assert TextDelta in kinds[:at] and TextDelta in kinds[at:]


def test_the_text_of_a_stream_is_never_two_answers_in_one(workdir: Path) -> None:
    with agent_with(BROKEN, workdir) as (agent, _):
        stream = agent.stream("go")
        with pytest.raises(TextRestarted, match="broke off"):
            "".join(stream.text())
        assert stream.result.answer == "The whole answer."
