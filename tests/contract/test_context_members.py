"""Every member of ``ctx`` is there, under the parameters and defaults that plugins call it with."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.contract import llm as contract
from hermes.contract.plugin import CONTEXT_METHODS, CONTEXT_PROPERTIES
from hermes.host import Host
from hermes.plugins.compat.bases import base_of
from hermes.plugins.context import PluginContext
from hermes.plugins.llm.access import PluginLlm
from hermes.testing import ScriptedProvider
from hermes.testing.harness import PluginHarness
from support import HostFactory

_CHOICES = "provider=None, model=None, temperature=None, max_tokens=None, timeout=None, agent_id=None, profile=None"
_STRUCTURED = (
    "*, instructions, input, json_schema=None, json_mode=False, schema_name=None, system_prompt=None, "
    f"{_CHOICES}, purpose=None"
)

LLM_MEMBERS = {
    "acomplete": f"messages, *, {_CHOICES}, purpose=None",
    "acomplete_structured": _STRUCTURED,
    "complete": f"messages, *, {_CHOICES}, purpose=None",
    "complete_structured": _STRUCTURED,
}


def called(function: Callable[..., Any], declared: str) -> None:
    """Check that a function takes what is declared; it may take more, by name, with defaults."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names, _, by_name = declared.partition("*, ")
    takes_any = declared.endswith("**")
    wanted = [part for part in names.replace("**", "").split(", ") if part]
    positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert [one.name for one in positional] == [part.partition("=")[0] for part in wanted]
    keyword = {one.name: one for one in parameters if one.kind is one.KEYWORD_ONLY}
    for part in (*wanted, *filter(None, by_name.split(", "))):
        name, given, default = part.partition("=")
        one = keyword.pop(name, None) or next(one for one in positional if one.name == name)
        if given:
            assert repr(one.default) == default, f"{name} defaults to {one.default!r}"
    assert all(one.default is not one.empty for one in keyword.values()), "what is beyond the contract is optional"
    others = [one for one in parameters if one.kind is one.VAR_KEYWORD]
    # A typed dictionary of keywords takes those and no others.
    assert any(not str(one.annotation).startswith("Unpack[") for one in others) == takes_any


@pytest.mark.parametrize("member", CONTEXT_METHODS)
def test_a_member_takes_what_plugins_pass(member: str) -> None:
    called(getattr(PluginContext, member), CONTEXT_METHODS[member])


@pytest.mark.parametrize("member", LLM_MEMBERS)
def test_model_access_takes_what_plugins_pass(member: str) -> None:
    method = getattr(PluginLlm, member)
    called(method, LLM_MEMBERS[member])
    assert inspect.iscoroutinefunction(method) == member.startswith("a")


def test_properties_are_there() -> None:
    kept: list[PluginContext] = []
    with PluginHarness(kept.append):
        for name in CONTEXT_PROPERTIES:
            assert not callable(getattr(kept[0], name)), name


def test_the_table_names_every_registration() -> None:
    offered = {name for name in dir(PluginContext) if name.startswith("register_")}
    elsewhere = {"register_cron_scheduler", "register_model_provider"}
    own = {"register_event_sink"}
    assert offered - set(CONTEXT_METHODS) - own == elsewhere, "these are offered where others collect them"


# -- the wrong thing is ignored, never an error ----------------------------------------------------------------------

OFFERS = [
    name.removeprefix("register_") for name, declared in CONTEXT_METHODS.items() if declared in ("provider", "engine")
]
OFFERS.append("secret_source")


class Nameless:
    """An object whose attributes cannot be read."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("not to be looked at")

    @property
    def name(self) -> str:
        raise RuntimeError("not yet")


@pytest.mark.parametrize("what", OFFERS)
def test_the_wrong_base_class_is_a_warning_and_ignored(what: str, caplog: pytest.LogCaptureFixture) -> None:
    base = base_of(what)
    wrong: list[Any] = [object(), None, "text", 5, Nameless(), *([base] if base else [])]

    def register(ctx: PluginContext) -> None:
        for value in wrong:
            getattr(ctx, f"register_{what}")(value)

    with PluginHarness(register) as harness:
        if what == "memory_provider":
            assert len(harness.plugin.waiting) == len(wrong), "a memory is taken as it comes"
            return
        assert base is not None
        assert harness.plugin.waiting == []
        assert len(harness.plugin.problems) == len(wrong)
        assert f"register_{what} needs an instance of a {base.__name__}, got object" in caplog.text


@pytest.mark.parametrize("what", [name for name in OFFERS if name != "memory_provider"])
def test_the_right_base_class_waits_for_its_surface(what: str) -> None:
    base = base_of(what)
    assert base is not None
    named = type("Named", (base,), {"name": "mine"})()
    unnamed = type("Unnamed", (base,), {"name": property(lambda self: 1 / 0)})()

    def register(ctx: PluginContext) -> None:
        getattr(ctx, f"register_{what}")(named)
        if what != "context_engine":
            getattr(ctx, f"register_{what}")(unnamed)

    with PluginHarness(register) as harness:
        waiting = [(entry.kind, entry.name) for entry in harness.plugin.waiting]
        assert waiting[0] == (what, "mine")
        assert waiting[1:] == ([] if what == "context_engine" else [(what, "Unnamed")])
        assert harness.plugin.problems == []


def test_one_context_engine_only() -> None:
    base = base_of("context_engine")
    assert base is not None
    first, second = base(), base()

    def register(ctx: PluginContext) -> None:
        ctx.register_context_engine(first)
        ctx.register_context_engine(second)

    with PluginHarness(register) as harness:
        assert [entry.value for entry in harness.plugin.waiting] == [first]
        assert "the first one stays" in harness.plugin.problems[0]


# -- ctx.llm ---------------------------------------------------------------------------------------------------------


class Access:
    """Model access that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def complete(self, messages: Any, **options: Any) -> contract.PluginLlmCompleteResult:
        self.asked.append(("complete", {"messages": messages, **options}))
        return contract.PluginLlmCompleteResult("hello", "p", "m", "default")

    def complete_structured(self, **options: Any) -> contract.PluginLlmStructuredResult:
        self.asked.append(("complete_structured", options))
        return contract.PluginLlmStructuredResult("{}", "p", "m", "default", parsed={}, content_type="json")

    async def acomplete(self, messages: Any, **options: Any) -> contract.PluginLlmCompleteResult:
        await asyncio.sleep(0)
        return self.complete(messages, **options)

    async def acomplete_structured(self, **options: Any) -> contract.PluginLlmStructuredResult:
        await asyncio.sleep(0)
        return self.complete_structured(**options)


def test_every_argument_of_model_access_arrives() -> None:
    kept: list[PluginContext] = []
    with PluginHarness(kept.append) as harness:
        access = harness.model_access = Access()
        llm = kept[0].llm
        assert llm is kept[0].llm
        assert type(llm) is PluginLlm
        assert repr(llm) == "PluginLlm(plugin_id='plugin')"
        for method, declared in LLM_MEMBERS.items():
            names = [part.partition("=")[0] for part in declared.replace("*, ", "").split(", ")]
            given = {name: f"the {name}" for name in names}
            answer: Any = getattr(llm, method)(**given)
            if method.startswith("a"):
                answer = asyncio.run(answer)
            assert isinstance(answer, contract.PluginLlmCompleteResult)
            assert access.asked.pop() == (method.removeprefix("a"), given)
        assert llm.complete([]).text == "hello"
        asked = access.asked.pop()[1]
        assert asked.pop("messages") == []
        assert set(asked.values()) == {None}, "what is not given arrives as None"


def test_a_host_answers_with_its_model(make_host: HostFactory, home: Path) -> None:
    folder = home / "plugins" / "asks"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: asks")
    (folder / "__init__.py").write_text(
        "from agent.plugin_llm import PluginLlm\n"
        "def register(ctx):\n"
        "    assert type(ctx.llm) is PluginLlm\n"
        "    ctx.register_command('ask', lambda raw: ctx.llm.complete([{'role': 'user', 'content': raw}]).text)\n"
    )
    with ScriptedProvider({"ping": "pong"}) as provider:
        host: Host = make_host(provider, plugins=["asks"])
        assert host.plugins.commands["ask"].handler("ping") == "pong"


def test_results_have_the_documented_fields() -> None:
    usage = contract.PluginLlmUsage()
    assert dataclasses.asdict(usage) == {
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "cost_usd": None,
    }
    complete = [field.name for field in dataclasses.fields(contract.PluginLlmCompleteResult)]
    structured = [field.name for field in dataclasses.fields(contract.PluginLlmStructuredResult)]
    assert complete == ["text", "provider", "model", "agent_id", "usage", "audit"]
    assert structured == [*complete, "parsed", "content_type"]
    assert issubclass(contract.PluginLlmStructuredResult, contract.PluginLlmCompleteResult)
    assert issubclass(contract.PluginLlmTrustError, PermissionError)
    assert contract.PluginLlmTextInput("hi") == contract.PluginLlmTextInput(text="hi", type="text")
    image = contract.PluginLlmImageInput(url="https://example.org/a.png")
    assert (image.data, image.mime_type, image.file_name, image.type) == (None, "image/png", "", "image")
