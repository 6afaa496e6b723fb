"""Execution middleware: every row of the contract's table of failures, one test each."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from hermes.base.errors import Interrupted, ProviderError
from hermes.base.scope import Scope, current_scope
from hermes.hooks.execution_chain import ExecutionChain
from hermes.hooks.table import Hooks
from support.hook_callbacks import answer

Middleware = Callable[..., Any]


class Base:
    """The wrapped call: records what it was given, then returns or raises."""

    def __init__(self, result: Any = "result", error: BaseException | None = None) -> None:
        self.result = result
        self.error = error
        self.payloads: list[Any] = []

    def __call__(self, payload: Any) -> Any:
        self.payloads.append(payload)
        if self.error is not None:
            raise self.error
        return self.result


def chain(hooks: Hooks, *callbacks: Middleware, kind: str = "tool_execution") -> ExecutionChain:
    for number, callback in enumerate(callbacks):
        hooks.add_middleware(kind, f"p{number}", callback)
    found = getattr(hooks, kind)
    assert isinstance(found, ExecutionChain)
    return found


def run(hooks: Hooks, base: Base, *callbacks: Middleware) -> Any:
    return chain(hooks, *callbacks).run({"command": "ls"}, base, {"session_id": "s"})


def pass_on(**fields: Any) -> Any:
    return fields["next_call"](fields["args"])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# -- the straight path -----------------------------------------------------------------------------------------------


def test_nested_in_registration_order_the_first_outermost(hooks: Hooks) -> None:
    order: list[str] = []

    def wrap(name: str) -> Middleware:
        def middleware(**fields: Any) -> Any:
            order.append(f"{name} in")
            result = fields["next_call"](fields["args"])
            order.append(f"{name} out")
            return f"{name}({result})"

        return middleware

    assert run(hooks, Base(), wrap("a"), wrap("b"), wrap("c")) == "a(b(c(result)))"
    assert order == ["a in", "b in", "c in", "c out", "b out", "a out"]


def test_callbacks_get_the_fields_of_the_contract(hooks: Hooks) -> None:
    seen: list[dict[str, Any]] = []

    def look(**fields: Any) -> Any:
        seen.append({name: value for name, value in fields.items() if name != "next_call"})
        return fields["next_call"]()

    context = {"session_id": "s", "original_args": {"command": "first"}, "middleware_trace": [{"source": "x"}]}
    chain(hooks, look).run({"command": "ls"}, Base(), context)
    assert seen == [
        {
            "telemetry_schema_version": "hermes.observer.v1",
            "middleware_schema_version": "hermes.middleware.v1",
            "args": {"command": "ls"},
            **context,
        }
    ]


def test_without_an_original_in_the_context_the_payload_is_the_original(hooks: Hooks) -> None:
    seen: list[Any] = []

    def look(original_request: dict[str, Any], next_call: Any) -> Any:
        seen.append(original_request)
        return next_call()

    chain(hooks, look, kind="llm_execution").run({"model": "m"}, Base(), {})
    assert seen == [{"model": "m"}]


@pytest.mark.parametrize("argument", ["nothing", "none", "its copy", "an equal dict"])
def test_an_unchanged_payload_reaches_the_base_by_reference(hooks: Hooks, argument: str) -> None:
    def middleware(args: dict[str, Any], next_call: Any) -> Any:
        if argument == "nothing":
            return next_call()
        return next_call({"none": None, "its copy": args, "an equal dict": dict(args)}[argument])

    base, payload = Base(), {"command": "ls"}
    assert chain(hooks, middleware, middleware).run(payload, base, {}) == "result"
    assert base.payloads[0] is payload


def test_a_changed_payload_reaches_later_middleware_and_the_base(hooks: Hooks) -> None:
    seen: list[Any] = []

    def change(args: dict[str, Any], next_call: Any) -> Any:
        return next_call({**args, "timeout": 5})

    def change_in_place(args: dict[str, Any], next_call: Any) -> Any:
        seen.append(dict(args))
        args["cwd"] = "/tmp"
        return next_call()

    base, payload = Base(), {"command": "ls"}
    chain(hooks, change, change_in_place).run(payload, base, {})
    assert seen == [{"command": "ls", "timeout": 5}]
    assert base.payloads == [{"command": "ls", "timeout": 5, "cwd": "/tmp"}]
    assert payload == {"command": "ls"}, "the runtime's own object must stay what was approved"


def test_what_was_passed_on_does_not_change_with_the_middlewares_objects(hooks: Hooks) -> None:
    def meddles(args: dict[str, Any], next_call: Any) -> Any:
        passed: dict[str, Any] = {**args, "options": {"deep": []}}
        result = next_call(passed)
        passed["options"]["deep"].append("later")
        passed["command"] = "rm -rf /"
        return result

    base = Base()
    run(hooks, base, meddles, pass_on)
    assert base.payloads == [{"command": "ls", "options": {"deep": []}}]


@pytest.mark.parametrize("value", [None, "", 0, {"any": "thing"}])
def test_returning_without_next_call_is_the_result_even_none(hooks: Hooks, value: Any) -> None:
    base = Base()
    assert run(hooks, base, answer(value), pass_on) == value
    assert base.payloads == []


# -- failures of the middleware --------------------------------------------------------------------------------------


def test_raising_before_next_call_goes_on_with_the_unmodified_payload(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    def fail(args: dict[str, Any], next_call: Any) -> Any:
        args["command"] = "rm -rf /"
        raise ValueError("too early")

    def look(args: dict[str, Any], next_call: Any) -> Any:
        seen.append(args)
        return next_call()

    base = Base()
    assert run(hooks, base, fail, look) == "result"
    assert seen == base.payloads == [{"command": "ls"}]
    [warning] = warnings(caplog)
    for part in ("'p0'", "tool_execution", "ValueError: too early"):
        assert part in warning


def test_raising_after_success_keeps_the_result_and_runs_nothing_again(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(**fields: Any) -> Any:
        fields["next_call"]()
        raise ValueError("too late")

    base = Base()
    assert run(hooks, base, pass_on, fail, pass_on) == "result"
    assert len(base.payloads) == 1
    assert "ValueError: too late" in warnings(caplog)[0]


def test_a_second_next_call_after_success_is_a_runtime_error_and_the_first_result_is_kept(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    def twice(**fields: Any) -> Any:
        fields["next_call"]()
        return fields["next_call"]()

    base = Base()
    assert run(hooks, base, twice) == "result"
    assert len(base.payloads) == 1
    assert "RuntimeError" in warnings(caplog)[0]


def test_a_second_next_call_may_be_caught(hooks: Hooks) -> None:
    def twice(**fields: Any) -> Any:
        first = fields["next_call"]()
        with pytest.raises(RuntimeError, match="twice"):
            fields["next_call"]()
        return f"{first} once"

    assert run(hooks, Base(), twice) == "result once"


def test_a_second_next_call_after_a_failure_is_no_retry(hooks: Hooks) -> None:
    def retry(**fields: Any) -> Any:
        try:
            return fields["next_call"]()
        except ValueError:
            return fields["next_call"]()

    base = Base(error=ValueError("down"))
    with pytest.raises(RuntimeError, match="twice"):
        run(hooks, base, retry)
    assert len(base.payloads) == 1


def test_a_next_call_kept_for_later_runs_nothing(hooks: Hooks) -> None:
    kept: list[Any] = []

    def keep(**fields: Any) -> Any:
        kept.append(fields["next_call"])
        raise ValueError

    base = Base()
    assert run(hooks, base, keep) == "result"
    with pytest.raises(RuntimeError, match="after its middleware had returned"):
        kept[0]({"command": "again"})
    assert len(base.payloads) == 1


def test_forgetting_to_return_the_result_is_warned_about(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    def forgets(**fields: Any) -> None:
        fields["next_call"]()

    assert run(hooks, Base(), forgets) is None
    assert "returned None although the call had a result" in warnings(caplog)[0]


# -- failures from below ---------------------------------------------------------------------------------------------


def test_an_error_that_passes_through_is_the_original_object(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[BaseException] = []

    def look(**fields: Any) -> Any:
        try:
            return fields["next_call"]()
        except ProviderError as error:
            seen.append(error)
            raise

    original = ProviderError("busy", reason="overloaded", status_code=529)
    with pytest.raises(ProviderError) as caught:
        run(hooks, Base(error=original), pass_on, look, pass_on)
    assert caught.value is original
    assert seen == [original]
    assert warnings(caplog) == [], "nobody failed but the call itself"
    assert [one.failures for one in hooks.stats()] == [0, 0, 0]


def test_a_value_returned_for_a_caught_error_is_success(hooks: Hooks) -> None:
    def rescue(**fields: Any) -> Any:
        try:
            return fields["next_call"]()
        except ValueError:
            return "cached answer"

    assert run(hooks, Base(error=ValueError("down")), rescue, pass_on) == "cached answer"


def test_none_for_a_caught_error_is_not_success(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    def swallow(**fields: Any) -> None:
        try:
            fields["next_call"]()
        except ValueError:
            pass

    original = ValueError("down")
    with pytest.raises(ValueError, match="down") as caught:
        run(hooks, Base(error=original), swallow)
    assert caught.value is original
    assert "returned None although the call had failed" in warnings(caplog)[0]


def test_a_translated_error_propagates_with_a_warning(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    def translate(**fields: Any) -> Any:
        try:
            return fields["next_call"]()
        except ValueError as error:
            raise LookupError("translated") from error

    base = Base(error=ValueError("down"))
    with pytest.raises(LookupError, match="translated"):
        run(hooks, base, pass_on, translate)
    assert len(base.payloads) == 1
    assert [line for line in warnings(caplog) if "'p1'" in line and "LookupError: translated" in line]
    assert not [line for line in warnings(caplog) if "'p0'" in line]


def test_a_translated_error_can_be_translated_again_further_out(hooks: Hooks) -> None:
    def outer(**fields: Any) -> Any:
        try:
            return fields["next_call"]()
        except LookupError:
            return "outer rescue"

    def inner(**fields: Any) -> Any:
        try:
            return fields["next_call"]()
        except ValueError:
            raise LookupError from None

    assert run(hooks, Base(error=ValueError()), outer, inner) == "outer rescue"


def test_an_inner_short_circuit_that_fails_open_still_runs_the_base_once(hooks: Hooks) -> None:
    def fail(**_fields: Any) -> Any:
        raise ValueError("early")

    base = Base()
    assert run(hooks, base, fail, fail, fail) == "result"
    assert len(base.payloads) == 1


# -- unwinding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, Interrupted])
def test_base_exceptions_from_below_pass_untouched(hooks: Hooks, raised: type[BaseException]) -> None:
    original = raised("stop")
    with pytest.raises(raised) as caught:
        run(hooks, Base(error=original), pass_on, pass_on)
    assert caught.value is original


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, Interrupted])
@pytest.mark.parametrize("where", ["before", "after"])
def test_base_exceptions_of_the_middleware_pass_untouched(
    hooks: Hooks, raised: type[BaseException], where: str
) -> None:
    def unwind(**fields: Any) -> Any:
        if where == "after":
            fields["next_call"]()
        raise raised("stop")

    base = Base()
    with pytest.raises(raised):
        run(hooks, base, pass_on, unwind)
    assert len(base.payloads) == (where == "after")


@pytest.mark.parametrize("reaction", ["returns", "returns none", "raises"])
def test_middleware_cannot_swallow_an_interrupt(hooks: Hooks, reaction: str) -> None:
    def swallow(**fields: Any) -> Any:
        try:
            return fields["next_call"]()
        except BaseException:
            if reaction == "raises":
                raise ValueError("instead") from None
            return "done" if reaction == "returns" else None

    with pytest.raises(Interrupted):
        run(hooks, Base(error=Interrupted("ctrl-c")), swallow)


# -- threads, loops and re-entry -------------------------------------------------------------------------------------


def test_async_middleware_is_awaited_and_its_next_call_works(hooks: Hooks) -> None:
    async def wrap(**fields: Any) -> Any:
        await asyncio.sleep(0)
        result = fields["next_call"](fields["args"])
        await asyncio.sleep(0)
        return f"async({result})"

    async def fail(**fields: Any) -> Any:
        await asyncio.sleep(0)
        raise ValueError("early")

    assert run(hooks, Base(), wrap, fail, wrap) == "async(async(result))"


def test_async_middleware_that_is_cancelled_has_failed(hooks: Hooks) -> None:
    async def cancelled(**_fields: Any) -> Any:
        raise asyncio.CancelledError

    assert run(hooks, Base(), cancelled) == "result"


def test_next_call_from_a_thread_of_the_plugin_carries_the_scope(hooks: Hooks) -> None:
    scope = Scope(session_id="s")
    seen: list[Any] = []
    variable: ContextVar[str] = ContextVar("test", default="lost")

    def base(_payload: Any) -> str:
        seen.append((current_scope.get(), variable.get()))
        return "result"

    def in_a_thread(**fields: Any) -> Any:
        results: list[Any] = []
        worker = threading.Thread(target=lambda: results.append(fields["next_call"]()), name="plugin thread")
        worker.start()
        worker.join()
        return results[0]

    token, other = current_scope.set(scope), variable.set("carried")
    try:
        assert chain(hooks, in_a_thread, pass_on).run({}, base, {}) == "result"
    finally:
        current_scope.reset(token)
        variable.reset(other)
    assert seen == [(scope, "carried")]


def test_giving_up_on_a_call_that_still_runs_is_the_middlewares_error(hooks: Hooks) -> None:
    started, release = threading.Event(), threading.Event()
    calls: list[Any] = []
    workers: list[threading.Thread] = []

    def base(payload: Any) -> str:
        calls.append(payload)
        started.set()
        assert release.wait(60)
        return "late"

    def impatient(**fields: Any) -> Any:
        workers.append(threading.Thread(target=fields["next_call"]))
        workers[0].start()
        assert started.wait(60)
        raise TimeoutError("no patience")

    with pytest.raises(TimeoutError, match="no patience"):
        chain(hooks, impatient).run({}, base, {})
    release.set()
    workers[0].join()
    assert len(calls) == 1


def test_of_two_threads_that_call_next_call_one_wins(hooks: Hooks) -> None:
    base = Base()
    errors: list[BaseException] = []

    def race(**fields: Any) -> Any:
        results: list[Any] = []

        def attempt() -> None:
            try:
                results.append(fields["next_call"]())
            except RuntimeError as error:
                errors.append(error)

        workers = [threading.Thread(target=attempt) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return results[0]

    assert run(hooks, base, race) == "result"
    assert len(base.payloads) == 1
    assert len(errors) == 7


def test_a_chain_runs_in_many_threads_and_inside_itself(hooks: Hooks) -> None:
    def base(payload: dict[str, Any]) -> Any:
        depth = payload["depth"]
        return depth if depth == 0 else current.run({"depth": depth - 1, "n": payload["n"]}, base, {})

    def check(**fields: Any) -> Any:
        before = dict(fields["args"])
        result = fields["next_call"]()
        assert fields["args"] == before
        return result

    current = chain(hooks, check, pass_on)
    results: list[Any] = []

    def use(number: int) -> None:
        results.append(current.run({"depth": 5, "n": number}, base, {}))

    workers = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [0] * 8
    assert all(one.failures == 0 and one.calls == 48 for one in hooks.stats())


def test_time_below_is_not_counted_as_the_middlewares_own(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def middleware(next_call: Any, **_: Any) -> Any:
        nonlocal now
        now += 2
        return next_call()

    def base(_payload: Any) -> None:
        nonlocal now
        now += 100

    monkeypatch.setattr("hermes.hooks.execution_chain.perf_counter", lambda: now)
    chain(hooks, middleware).run({}, base, {})
    assert hooks.stats()[0].seconds == 2
