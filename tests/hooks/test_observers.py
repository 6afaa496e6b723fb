"""Observers: order, answers, narrow signatures, isolation of failures and of changes."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from hermes.base.errors import Interrupted, TurnSuspended
from hermes.contract.hooks import HOOKS
from hermes.contract.response import Record
from hermes.hooks.observers import Answer, Emitter
from hermes.hooks.table import Hooks
from support.hook_callbacks import answer, mark, note


def emitter(hooks: Hooks, hook: str, *callbacks: Callable[..., Any], **options: Any) -> Emitter[Any]:
    for number, callback in enumerate(callbacks):
        hooks.subscribe(hook, f"p{number}", callback, **options)
    found = getattr(hooks, hook)
    assert isinstance(found, Emitter)
    return cast("Emitter[Any]", found)


# -- order and answers -----------------------------------------------------------------------------------------------


def test_answers_come_in_registration_order_without_none(hooks: Hooks) -> None:
    emit = emitter(hooks, "pre_llm_call", answer("first"), answer(), answer({"context": "third"}))
    assert emit.invoke(session_id="s") == [Answer("p0", "first"), Answer("p2", {"context": "third"})]


def test_falsy_answers_are_answers(hooks: Hooks) -> None:
    emit = emitter(hooks, "transform_tool_result", answer(""), answer(0), answer(False))
    assert [answer.value for answer in emit.invoke(result="x")] == ["", 0, False]


def test_the_schema_version_is_injected_and_a_given_one_kept(hooks: Hooks) -> None:
    seen: list[Any] = []
    emit = emitter(hooks, "post_tool_call", note(seen, "telemetry_schema_version"))
    emit.invoke(tool_name="t")
    emit.invoke(tool_name="t", telemetry_schema_version="other")
    assert seen == ["hermes.observer.v1", "other"]


def test_a_callback_may_register_another_which_hears_the_next_event(hooks: Hooks) -> None:
    seen: list[str] = []

    def late(**_fields: Any) -> None:
        seen.append("late")

    def first(**_fields: Any) -> None:
        seen.append("first")
        hooks.subscribe("post_tool_call", "p", late)

    hooks.subscribe("post_tool_call", "p", first)
    assert hooks.post_tool_call is not None
    hooks.post_tool_call.invoke(tool_name="t")
    assert seen == ["first"]
    hooks.post_tool_call.invoke(tool_name="t")
    assert seen == ["first", "first", "late"]


# -- signatures ------------------------------------------------------------------------------------------------------


class Callable_:  # noqa: N801
    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __call__(self, tool_name: str, status: str = "?") -> None:
        self.seen.append((tool_name, status))

    def method(self, tool_name: str, *, status: str) -> None:
        self.seen.append((tool_name, status))

    def wide(self, **fields: Any) -> None:
        self.seen.append((fields["tool_name"], fields["status"]))

    @staticmethod
    def static(tool_name: str, status: str) -> tuple[str, str]:
        return tool_name, status


def test_narrow_callbacks_of_every_sort_get_the_fields_they_name(hooks: Hooks) -> None:
    seen: list[Any] = []
    thing = Callable_(seen)

    def function(tool_name: str, status: str) -> None:
        seen.append((tool_name, status))

    def with_more(extra: str, tool_name: str, status: str) -> None:
        seen.append((tool_name, status))

    named_lambda: Callable[[str, str], None] = lambda tool_name, status: seen.append((tool_name, status))  # noqa: E731

    @functools.wraps(function)
    def wrapper(*args: Any, **fields: Any) -> None:
        assert "result" in fields, "the wrapper takes any field, whatever the function inside names"
        function(fields["tool_name"], fields["status"])

    @functools.wraps(thing.wide)
    def narrow_wrapper(tool_name: str, status: str) -> None:
        function(tool_name, status)

    emit = emitter(
        hooks,
        "post_tool_call",
        function,
        thing,
        thing.method,
        thing.wide,
        Callable_.static,
        functools.partial(with_more, "bound"),
        named_lambda,
        wrapper,
        narrow_wrapper,
    )
    answers = emit.invoke(tool_name="terminal", status="ok", args={"command": "ls"}, result="{}")
    assert seen == [("terminal", "ok")] * 8
    assert answers == [Answer("p4", ("terminal", "ok"))]


def test_builtins_and_callables_without_a_signature_work(hooks: Hooks, capsys: pytest.CaptureFixture[str]) -> None:
    emit = emitter(hooks, "post_tool_call", print, dict)
    [answer] = emit.invoke(tool_name="t")
    assert answer == Answer("p1", {"tool_name": "t", "telemetry_schema_version": "hermes.observer.v1"})
    assert capsys.readouterr().out == "\n"


def test_a_callback_that_takes_nothing_is_called(hooks: Hooks) -> None:
    seen: list[int] = []
    emitter(hooks, "on_session_end", lambda: seen.append(1)).invoke(session_id="s")
    assert seen == [1]


def test_wants_is_false_only_when_no_signature_takes_the_field(hooks: Hooks) -> None:
    def ids(session_id: str) -> None: ...

    def request(model: str, request: dict[str, Any]) -> None: ...

    narrow = emitter(hooks, "pre_api_request", ids, request)
    assert narrow.wants("request")
    assert not narrow.wants("conversation_history")
    hooks.subscribe("pre_api_request", "wide", answer())
    assert hooks.pre_api_request is not None
    assert hooks.pre_api_request.wants("conversation_history")


def test_a_signature_that_cannot_be_met_is_a_failure_of_that_callback_only(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    def asks_for_more(tool_name: str, moon_phase: str) -> None: ...

    emit = emitter(hooks, "post_tool_call", asks_for_more, answer("fine"))
    assert emit.invoke(tool_name="t") == [Answer("p1", "fine")]
    assert "moon_phase" in caplog.text
    assert "'p0'" in caplog.text


# -- failures --------------------------------------------------------------------------------------------------------


def test_a_failure_warns_once_per_cause_and_names_plugin_hook_and_error(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "hermes.hooks")
    reasons = ["one 17", "one 23", "two"]

    def fail(**fields: Any) -> None:
        if fields["tool_name"] == "two":
            raise KeyError("two")
        raise ValueError(fields["tool_name"])

    emit = emitter(hooks, "post_tool_call", fail)
    for reason in (*reasons, *reasons):
        emit.invoke(tool_name=reason)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    debugs = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert len(warnings) == 2, "the text of a message may vary; where and what was raised is the cause"
    assert all("'p0'" in line and "post_tool_call" in line for line in warnings)
    assert "ValueError: one 17" in warnings[0]
    assert "KeyError" in warnings[1]
    assert len(debugs) == 4
    assert hooks.stats()[0].failures == 6


def test_an_error_whose_message_cannot_be_read_or_holds_a_secret_is_described_safely(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    def unreadable(**_fields: Any) -> None:
        raise Unreadable

    def leaks(**_fields: Any) -> None:
        raise ValueError("refused: api_key=sk-proj-abcdefghijklmnopqrstuvwxyz123456\nsecond line")

    hooks.subscribe("pre_tool_call", "p", unreadable)
    hooks.subscribe("pre_tool_call", "q", leaks, on_error="deny")
    assert hooks.pre_tool_call is not None
    [denied] = hooks.pre_tool_call.invoke(tool_name="t", args={}, middleware_trace=[])
    assert "Unreadable: (its message cannot be read)" in caplog.text
    for text in (caplog.text, denied.value["message"], hooks.stats()[1].last_error):
        assert "sk-proj-abcdef" not in text
    assert "second line" in denied.value["message"]


class OwnBaseException(BaseException):
    pass


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, OwnBaseException]
)
def test_any_exception_of_a_callback_is_its_failure(
    hooks: Hooks, raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def unwind(**_fields: Any) -> None:
        raise raised("stop")

    emit = emitter(hooks, "pre_llm_call", unwind, answer("next"))
    assert emit.invoke(session_id="s") == [Answer("p1", "next")]
    assert f"plugin 'p0': pre_llm_call callback failed: {raised.__name__}: stop" in caplog.text


@pytest.mark.parametrize("raised", [Interrupted, TurnSuspended])
def test_the_runtimes_own_signals_pass_through(hooks: Hooks, raised: type[BaseException]) -> None:
    def unwind(**_fields: Any) -> None:
        raise raised("stop")

    after: list[int] = []
    emit = emitter(hooks, "post_tool_call", unwind, mark(after, 1))
    with pytest.raises(raised):
        emit.invoke(tool_name="t")
    assert after == []


def test_a_failing_policy_denies_only_when_asked_to(hooks: Hooks) -> None:
    def fail(**_fields: Any) -> None:
        raise RuntimeError("the rules file is gone")

    hooks.subscribe("pre_tool_call", "open", fail)
    hooks.subscribe("pre_tool_call", "closed", fail, on_error="deny")
    assert hooks.pre_tool_call is not None
    [answer] = hooks.pre_tool_call.invoke(tool_name="t", args={})
    assert answer.plugin == "closed"
    assert answer.value["action"] == "block"
    assert "closed" in answer.value["message"]
    assert "the rules file is gone" in answer.value["message"]


# -- changes ---------------------------------------------------------------------------------------------------------


def spoil(**fields: Any) -> None:
    """Change everything that can be changed."""
    for value in fields.values():
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            spoil(**inner)
            inner["spoilt"] = True
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            spoil(**{str(number): item for number, item in enumerate(items)})
            items.append("spoilt")
        elif isinstance(value, Record):
            value["content"] = "spoilt"


def conversation() -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "t"}}]},
    ]


def api_payload(hook: str) -> dict[str, Any]:
    declared = {field.name for field in HOOKS[hook].fields}
    payload: dict[str, Any] = {
        "session_id": "s",
        "conversation_history": conversation(),
        "request_messages": conversation(),
        "request": {"method": "POST", "body": {"messages": conversation(), "tools": [{"name": "t"}]}},
        "middleware_trace": [{"source": "x"}],
        "assistant_message": Record(content="hello", tool_calls=[{"id": "1"}]),
        "usage": {"input_tokens": 1},
        "error": {"type": "ProviderError"},
    }
    return {name: value for name, value in payload.items() if name in declared}


@pytest.mark.parametrize("hook", ["pre_api_request", "post_api_request", "api_request_error", "pre_llm_call"])
def test_nothing_an_observer_changes_reaches_the_runtime_or_others(hooks: Hooks, hook: str) -> None:
    seen: list[dict[str, Any]] = []

    def look(**fields: Any) -> None:
        fields.pop("telemetry_schema_version")
        seen.append(fields)

    emit = emitter(hooks, hook, look, spoil, look)
    payload, untouched = api_payload(hook), api_payload(hook)
    for _ in range(3):  # copies are carried over from one event to the next; spoilt ones must not be
        emit.invoke(**payload)
    assert payload == untouched
    assert seen[1] == seen[3] == seen[5] == untouched
    assert seen[0] == untouched


def test_what_an_observer_keeps_does_not_follow_the_runtime(hooks: Hooks) -> None:
    kept: list[Any] = []
    emit = emitter(hooks, "pre_llm_call", note(kept, "conversation_history"))
    history = conversation()
    emit.invoke(session_id="s", conversation_history=history)
    history.append({"role": "user", "content": "more"})
    history[0]["content"] = "changed"
    emit.invoke(session_id="s", conversation_history=history)
    assert kept == [conversation(), history]


def test_a_growing_conversation_is_shown_right_every_time(hooks: Hooks) -> None:
    seen: list[Any] = []
    emit = emitter(hooks, "pre_api_request", note(seen, "request_messages"))
    histories: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for number in range(20):
        for session, history in histories.items():
            history.append({"role": "user", "content": f"{session}{number}", "parts": [number]})
            if number == 10:
                del history[3:7]
            emit.invoke(session_id=session, request_messages=history)
            assert seen.pop() == history


# -- the live field --------------------------------------------------------------------------------------------------


def test_args_changed_in_place_are_taken_over_and_traced(hooks: Hooks) -> None:
    seen: list[Any] = []

    def rewrite(**fields: Any) -> None:
        fields["args"]["options"]["deep"] = [1]
        fields["args"]["command"] = "ls -l"

    emit = emitter(
        hooks,
        "pre_tool_call",
        answer(),
        rewrite,
        note(seen, "args", "middleware_trace"),
    )
    args: dict[str, Any] = {"command": "ls", "options": {}}
    trace: list[dict[str, str]] = [{"source": "earlier"}]
    emit.invoke(tool_name="terminal", args=args, middleware_trace=trace)
    assert args == {"command": "ls -l", "options": {"deep": [1]}}
    assert trace == [{"source": "earlier"}, {"source": "p1", "reason": "changed args in a hook"}]
    assert seen == [(args, trace)]


def test_args_are_not_changed_by_one_that_raises_nor_later_through_a_kept_reference(hooks: Hooks) -> None:
    kept: list[dict[str, Any]] = []

    def raises(args: dict[str, Any]) -> None:
        args["command"] = "rm -rf /"
        raise ValueError("half way")

    def keeps(args: dict[str, Any]) -> None:
        kept.append(args)
        args["nested"] = {"list": []}

    emit = emitter(hooks, "pre_tool_call", raises, keeps)
    args: dict[str, Any] = {"command": "ls"}
    emit.invoke(tool_name="terminal", args=args, middleware_trace=[])
    assert args == {"command": "ls", "nested": {"list": []}}
    kept[0]["command"] = "rm -rf /"
    kept[0]["nested"]["list"].append("later")
    assert args == {"command": "ls", "nested": {"list": []}}


def test_args_of_other_hooks_are_not_live(hooks: Hooks) -> None:
    emit = emitter(hooks, "post_tool_call", spoil)
    args: dict[str, Any] = {"command": "ls"}
    trace: list[dict[str, str]] = []
    emit.invoke(tool_name="terminal", args=args, middleware_trace=trace)
    assert (args, trace) == ({"command": "ls"}, [])


def test_args_that_cannot_be_compared_count_as_changed(hooks: Hooks) -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError("no comparison")

    odd = Odd()

    def replace(args: dict[str, Any]) -> None:
        args["x"] = odd

    args: dict[str, Any] = {"x": Odd()}
    emitter(hooks, "pre_tool_call", replace).invoke(tool_name="t", args=args, middleware_trace=[])
    assert args["x"] is odd


def test_data_nested_deeper_than_python_likes_does_not_stop_the_turn(hooks: Hooks) -> None:
    args: dict[str, Any] = {}
    for _ in range(5000):
        args = {"x": args}
    seen: list[int] = []
    emit = emitter(hooks, "pre_tool_call", mark(seen, 1), mark(seen, 2))
    emit.invoke(tool_name="t", args=args, middleware_trace=[])
    assert seen == [1, 2]
