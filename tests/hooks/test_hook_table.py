"""The table of hooks: one slot per name, exact registration, removal and rollback."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from hermes.base.errors import PluginError
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.execution_chain import ExecutionChain
from hermes.hooks.observers import Emitter
from hermes.hooks.request_chain import RequestChain
from hermes.hooks.table import Hooks


def nothing(**_fields: Any) -> None:
    return None


def test_slots_are_exactly_the_contract() -> None:
    public = {name for name in Hooks.__slots__ if not name.startswith("_")} - {"loop", "runner"}
    assert public == set(HOOKS) | set(MIDDLEWARE)
    annotated = {name for name in Hooks.__annotations__ if not name.startswith("_")} - {"loop", "runner"}
    assert annotated == public


def test_every_site_is_none_until_somebody_subscribes(hooks: Hooks) -> None:
    for name in (*HOOKS, *MIDDLEWARE):
        assert getattr(hooks, name) is None
        assert not hooks.has(name)
    for name in HOOKS:
        assert hooks.subscribe(name, "p", nothing)
        assert isinstance(getattr(hooks, name), Emitter)
    for kind, spec in MIDDLEWARE.items():
        assert hooks.add_middleware(kind, "p", nothing)
        assert isinstance(getattr(hooks, kind), ExecutionChain if spec.wraps else RequestChain)
    assert all(hooks.has(name) for name in (*HOOKS, *MIDDLEWARE))
    assert [callback.site for callback in hooks.stats()] == [*HOOKS, *MIDDLEWARE]


def test_an_unknown_attribute_cannot_be_set(hooks: Hooks) -> None:
    with pytest.raises(AttributeError):
        hooks.pre_tool_cal = None  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("name", "nearest"), [("pre_tool_cal", "pre_tool_call"), ("on_session_started", "on_session_start")]
)
def test_an_unknown_hook_warns_with_the_nearest_name(
    hooks: Hooks, caplog: pytest.LogCaptureFixture, name: str, nearest: str
) -> None:
    before = hooks.snapshot()
    assert not hooks.subscribe(name, "typo-plugin", nothing)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    for part in ("typo-plugin", name, nearest):
        assert repr(part) in record.getMessage()
    assert hooks.snapshot() == before
    assert not hooks.has(name)


def test_an_unknown_kind_warns_and_far_off_names_list_what_there_is(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    assert not hooks.add_middleware("llm_requests", "p", nothing)
    assert not hooks.add_middleware("zzz", "p", nothing)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.endswith("there is no middleware kind 'llm_requests'; did you mean 'llm_request'? It is ignored")
    assert second.endswith(f"there is no middleware kind 'zzz'; there are: {', '.join(MIDDLEWARE)}. It is ignored")


def test_what_is_not_callable_is_refused(hooks: Hooks) -> None:
    with pytest.raises(PluginError, match="needs a function, got str"):
        hooks.subscribe("pre_tool_call", "p", "not a function")  # pyright: ignore[reportArgumentType]
    with pytest.raises(PluginError, match="needs a function, got NoneType"):
        hooks.add_middleware("tool_request", "p", None)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("hook", "options", "message"),
    [
        ("pre_tool_call", {"on_error": "explode"}, "it may be 'allow' or 'deny'"),
        ("post_tool_call", {"on_error": "deny"}, "is for pre_tool_call"),
        ("pre_tool_call", {"on_error": "deny", "background": True}, "run with the turn"),
        ("pre_tool_call", {"timeout": 0}, "seconds above 0"),
        ("pre_tool_call", {"timeout": -1.5}, "seconds above 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(hooks: Hooks, hook: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        hooks.subscribe(hook, "p", nothing, **options)
    assert not hooks.has(hook)


def test_remove_takes_out_one_plugin_only(hooks: Hooks) -> None:
    seen: list[str] = []
    for plugin in ("a", "b"):

        def note(plugin: str = plugin, **_fields: Any) -> None:
            seen.append(plugin)

        hooks.subscribe("post_tool_call", plugin, note)
        hooks.add_middleware("tool_request", plugin, nothing)
    hooks.subscribe("on_session_end", "a", nothing, background=True)
    hooks.remove("a")
    assert hooks.post_tool_call is not None
    hooks.post_tool_call.invoke(tool_name="t")
    assert seen == ["b"]
    assert not hooks.has("on_session_end")
    hooks.remove("b")
    assert hooks.post_tool_call is None
    assert hooks.tool_request is None


def test_restore_forgets_what_came_after_the_snapshot(hooks: Hooks) -> None:
    hooks.subscribe("post_tool_call", "kept", nothing)
    before = hooks.snapshot()
    hooks.subscribe("post_tool_call", "late", nothing)
    hooks.subscribe("pre_llm_call", "late", nothing, background=True)
    hooks.add_middleware("llm_execution", "late", nothing)
    hooks.restore(before)
    assert hooks.snapshot() == before
    assert [(callback.plugin, callback.site) for callback in hooks.stats()] == [("kept", "post_tool_call")]


def test_stats_tell_calls_failures_and_time_per_registration(hooks: Hooks) -> None:
    def fail(**_fields: Any) -> None:
        raise ValueError("no good")

    hooks.subscribe("post_tool_call", "good", nothing)
    hooks.subscribe("post_tool_call", "bad", fail)
    hooks.add_middleware("tool_request", "bad", fail)
    for _ in range(3):
        assert hooks.post_tool_call is not None
        assert hooks.tool_request is not None
        hooks.post_tool_call.invoke(tool_name="t")
        hooks.tool_request.run({}, {})
    good, bad, middleware = hooks.stats()
    assert (good.plugin, good.site, good.calls, good.failures) == ("good", "post_tool_call", 3, 0)
    assert (bad.calls, bad.failures, bad.last_error) == (3, 3, "ValueError: no good")
    assert (middleware.site, middleware.calls, middleware.failures) == ("tool_request", 3, 3)
    assert all(one.seconds > 0 for one in hooks.stats())
