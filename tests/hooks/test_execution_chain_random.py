"""Execution middleware under random chains of misbehaviour: the invariants that must always hold."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.errors import Interrupted
from hermes.hooks.table import Hooks

#: What a middleware does before, with and after next_call.
BEFORE = ["go on", "raise", "return", "return none", "unwind", "spoil"]
CALL = ["call", "call with change", "call with none", "call twice", "catch and return", "catch and return none",
        "catch and translate", "catch and call again", "swallow everything"]  # fmt: skip
AFTER = ["return result", "return other", "return none", "raise", "unwind"]


class BaseFailed(Exception):
    pass


class Translated(Exception):
    pass


class Misbehaved(Exception):
    pass


@dataclass
class World:
    """What really happened."""

    base_error: BaseException | None
    base_calls: list[Any] = field(default_factory=list[Any])
    order: list[int] = field(default_factory=list[int])
    #: Middleware that failed before it used next_call, and those that ended the call on purpose.
    early: list[int] = field(default_factory=list[int])
    short: list[int] = field(default_factory=list[int])

    def base(self, payload: Any) -> str:
        self.base_calls.append(payload)
        if self.base_error is not None:
            raise self.base_error
        return "base result"


def middleware(world: World, index: int, before: str, call: str, after: str) -> Callable[..., Any]:
    def run(args: dict[str, Any], next_call: Callable[..., Any]) -> Any:
        world.order.append(index)
        if before == "spoil":
            args["spoilt"] = True
        if before == "raise":
            world.early.append(index)
            raise Misbehaved
        if before == "unwind":
            raise Interrupted
        if before.startswith("return"):
            world.short.append(index)
            return f"short {index}" if before == "return" else None
        return _finish(after, _call(call, args, next_call))

    return run


def _call(call: str, args: dict[str, Any], next_call: Callable[..., Any]) -> Any:
    try:
        if call == "call with change":
            return next_call({**args, "changed": True})
        if call == "call with none":
            return next_call(None)
        result = next_call(args)
        return next_call(args) if call == "call twice" else result
    except Exception:
        if call == "catch and return":
            return "rescued"
        if call == "catch and return none":
            return None
        if call == "catch and translate":
            raise Translated from None
        if call == "catch and call again":
            return next_call(args)
        raise
    except BaseException:
        if call == "swallow everything":
            return "swallowed"
        raise


def _finish(after: str, result: Any) -> Any:
    if after == "raise":
        raise Misbehaved
    if after == "unwind":
        raise Interrupted
    return {"return result": result, "return other": "other", "return none": None}[after]


steps = st.tuples(st.sampled_from(BEFORE), st.sampled_from(CALL), st.sampled_from(AFTER))
mostly_calm = st.tuples(st.sampled_from(["go on", "spoil", "raise"]), st.sampled_from(CALL), st.sampled_from(AFTER))
outcomes = st.sampled_from(["ok", "failed", "unwound"])


@settings(max_examples=400, deadline=None)
@given(plan=st.lists(steps | mostly_calm, min_size=1, max_size=6), base_outcome=outcomes)
def test_invariants_hold_for_any_chain(plan: list[tuple[str, str, str]], base_outcome: str) -> None:
    logging.getLogger("hermes.hooks").setLevel(logging.CRITICAL)
    errors: dict[str, BaseException | None] = {"ok": None, "failed": BaseFailed(), "unwound": Interrupted("base")}
    world = World(errors[base_outcome])
    hooks = Hooks()
    for index, step in enumerate(plan):
        hooks.add_middleware("tool_execution", f"p{index}", middleware(world, index, *step))
    payload = {"command": "ls"}
    result: Any = None
    raised: BaseException | None = None
    try:
        assert hooks.tool_execution is not None
        result = hooks.tool_execution.run(payload, world.base, {})
    except BaseException as error:
        raised = error
    finally:
        logging.getLogger("hermes.hooks").setLevel(logging.NOTSET)
    _check(plan, world, payload, result, raised)


def _check(
    plan: list[tuple[str, str, str]], world: World, payload: Any, result: Any, raised: BaseException | None
) -> None:
    assert len(world.base_calls) <= 1, "the base runs at most once"
    assert world.order == list(range(len(world.order))), "each runs once, in registration order"
    assert payload == {"command": "ls"}, "the runtime's own payload is never changed"
    stopped = bool(world.short) or any(plan[index][0] == "unwind" for index in world.order)
    assert len(world.base_calls) == 1 or stopped, "a failure before next_call never skips the base"
    assert stopped or world.order == list(range(len(plan)))
    if world.base_calls and isinstance(world.base_error, Interrupted):
        assert isinstance(raised, Interrupted), "an interrupt from below is never swallowed"
    if world.base_calls and isinstance(world.base_error, BaseFailed) and raised is None and result is None:
        rescued = any(plan[index][1] == "catch and return" or plan[index][2] == "return other" for index in world.order)
        assert rescued, "a failure from below never becomes a successful None by itself"
    if raised is not None:
        assert isinstance(raised, BaseFailed | Translated | Misbehaved | RuntimeError | Interrupted)
        assert not isinstance(raised, Misbehaved) or world.base_error is not None, (
            "a middleware's own failure reaches the caller only where the call itself had failed"
        )
