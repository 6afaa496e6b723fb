"""Every member of ``ctx``: what it does, what it refuses, and with which words."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.errors import PluginError
from hermes.base.scope import Scope
from hermes.plugins.compat.agent.engines import ContextEngine
from hermes.plugins.compat.bases import base_of
from hermes.plugins.context import PluginContext, PluginToolOverrideError
from hermes.plugins.registry import LoadedPlugin
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import ToolContext
from hermes.tools.terminal.background import ProcessTable
from support.plugin_rig import Rig, giving

SCHEMA: dict[str, Any] = {
    "description": "Looks up the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
def ctx(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> PluginContext:
    """The ``ctx`` of a loaded user plugin with the key ``cat/p``."""
    return load(rig, monkeypatch, "cat/p")[0]


def load(rig: Rig, monkeypatch: pytest.MonkeyPatch, path: str, **options: Any) -> tuple[PluginContext, LoadedPlugin]:
    kept: list[PluginContext] = []
    monkeypatch.setattr(sys, "test_kept", kept, raising=False)
    rig.write(path, "import sys\ndef register(ctx): sys.test_kept.append(ctx)", f"name: {path.rpartition('/')[2]}-name")
    plugins = rig.load(enabled=[path, f"{path}-name"], **options)
    return kept[0], plugins.plugins[kept[0].manifest.key]


def record_of(ctx: PluginContext) -> LoadedPlugin:
    return ctx._record  # pyright: ignore[reportPrivateUsage]


def run_tool(rig: Rig, name: str, args: dict[str, Any], user_task: str = "") -> Any:
    tool = rig.tools.get(name)
    assert tool is not None
    scope = Scope(session_id="s", task_id="t", turn_id="u", api_request_id="r", tool_call_id="c")
    processes = ProcessTable()
    try:
        return tool.run(args, ToolContext(scope, Path("/tmp"), processes, FileGuard(), user_task=user_task))
    finally:
        processes.close()


# -- the host's services ---------------------------------------------------------------------------------------------


def test_services_reach_the_host(ctx: PluginContext, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    assert ctx.manifest.key == "cat/p"
    assert ctx.profile_name == "work"
    assert ctx.llm.plugin_id == "cat/p"
    assert ctx.llm is ctx.llm
    assert ctx.dispatch_tool("terminal", {"command": "ls"}, parent="x") == "dispatched"
    assert ctx.dispatch_tool("todo") == "dispatched"
    assert ctx.inject_message("hello") is True
    assert ctx.inject_message("hello", role="system") is True
    assert ctx.inject_message("nobody listens") is False
    assert rig.asked == [
        ("terminal", {"command": "ls"}, {"parent": "x"}),
        ("todo", {}, {}),
        ("user", "hello"),
        ("user", "[system] hello"),
        ("user", "nobody listens"),
    ]
    assert "there is no conversation" in caplog.text


# -- tools -----------------------------------------------------------------------------------------------------------


def test_a_tool_is_offered_with_its_schema(ctx: PluginContext, rig: Rig) -> None:
    def handler(args: dict[str, Any], **_kw: Any) -> str:
        return msgspec.json.encode({"city": args["city"]}).decode()

    ctx.register_tool("weather", "forecast", SCHEMA, handler, emoji="*", effect="pure", parallel=True)
    tool = rig.tools.get("weather")
    assert tool is not None
    assert tool.definition()["function"] == {"name": "weather", **SCHEMA}
    assert (tool.toolset, tool.plugin, tool.effect, tool.parallel) == ("forecast", "cat/p", "pure", True)
    assert tool.available is None
    assert run_tool(rig, "weather", {"city": "Rome"}) == '{"city":"Rome"}'
    assert record_of(ctx).tools == ["weather"]


@pytest.mark.parametrize(
    ("schema", "description", "expected"),
    [
        ({"description": "from schema"}, "", "from schema"),
        ({"description": "from schema"}, "given", "given"),
        ({}, "", ""),
        ({"type": "function", "function": {"name": "x", "description": "wrapped"}}, "", "wrapped"),
    ],
)
def test_descriptions_and_wrapped_schemas(
    ctx: PluginContext, rig: Rig, schema: dict[str, Any], description: str, expected: str
) -> None:
    ctx.register_tool("t", "s", schema, giving("{}"), description=description)
    tool = rig.tools.get("t")
    assert tool is not None
    assert tool.description == expected
    assert tool.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bad name!", "s", SCHEMA, print), "cannot be a tool's name"),
        (("", "s", SCHEMA, print), "cannot be a tool's name"),
        (("x" * 65, "s", SCHEMA, print), "cannot be a tool's name"),
        (("t", "s", "schema", print), "schema is a str; a dict is expected"),
        (("t", "s", {"parameters": [1]}, print), r"schema\['parameters'\] is a list"),
        (("t", "s", SCHEMA, "handler"), "needs a function, got str"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(ctx: PluginContext, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        ctx.register_tool(*arguments)
    assert record_of(ctx).tools == []


def test_handlers_get_the_keywords_they_take(ctx: PluginContext, rig: Rig) -> None:
    seen: list[Any] = []

    def wide(args: dict[str, Any], **kw: Any) -> str:
        seen.append(kw)
        return "{}"

    def narrow(args: dict[str, Any], tool_call_id: str, cwd: str, other: int = 7) -> str:
        seen.append((tool_call_id, cwd, other))
        return "{}"

    def bare(parameters: dict[str, Any]) -> str:
        seen.append(parameters)
        return "{}"

    for handler in (wide, narrow, bare):
        ctx.register_tool(handler.__name__, "s", SCHEMA, handler)
        run_tool(rig, handler.__name__, {"a": 1}, user_task="the task")
    assert seen == [{"task_id": "t", "session_id": "s", "user_task": "the task"}, ("c", "/tmp", 7), {"a": 1}]


def test_a_handler_cannot_change_the_arguments_of_the_call(ctx: PluginContext, rig: Rig) -> None:
    def handler(args: dict[str, Any]) -> str:
        args["nested"].append(args.pop("city"))
        return "{}"

    ctx.register_tool("t", "s", SCHEMA, handler)
    args: dict[str, Any] = {"city": "Rome", "nested": []}
    run_tool(rig, "t", args)
    assert args == {"city": "Rome", "nested": []}


@pytest.mark.parametrize("flagged", [True, False])
def test_async_handlers_are_awaited(ctx: PluginContext, rig: Rig, flagged: bool) -> None:
    async def handler(args: dict[str, Any], session_id: str) -> str:
        return f'{{"session": "{session_id}"}}'

    ctx.register_tool("t", "s", SCHEMA, handler, is_async=flagged)
    assert run_tool(rig, "t", {}) == '{"session": "s"}'


@pytest.mark.parametrize("value", [None, 3, {"a": 1}, ["x"], b"bytes", {"_multimodal": False}])
def test_a_result_that_is_not_text_is_an_error_for_the_model(ctx: PluginContext, rig: Rig, value: Any) -> None:
    ctx.register_tool("t", "s", SCHEMA, giving(value))
    result = msgspec.json.decode(run_tool(rig, "t", {}))
    assert result["error_type"] == "tool_result_contract"
    assert type(value).__name__ in result["error"]


def test_a_multimodal_result_passes(ctx: PluginContext, rig: Rig) -> None:
    value = {"_multimodal": True, "content": [{"type": "text", "text": "hi"}]}
    ctx.register_tool("t", "s", SCHEMA, giving(value))
    assert msgspec.json.decode(run_tool(rig, "t", {})) == value


def test_an_exception_of_a_handler_is_left_to_the_pipeline(ctx: PluginContext, rig: Rig) -> None:
    def handler(args: dict[str, Any]) -> str:
        raise LookupError("no such city")

    ctx.register_tool("t", "s", SCHEMA, handler)
    with pytest.raises(LookupError, match="no such city"):
        run_tool(rig, "t", {})


def test_availability_asks_for_variables_and_the_check(
    ctx: PluginContext, rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    verdict: Any = True

    def check() -> Any:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    ctx.register_tool("t", "s", SCHEMA, print, check_fn=check, requires_env=["TEST_ONE", {"name": "TEST_TWO"}])
    tool = rig.tools.get("t")
    assert tool is not None
    assert tool.available is not None
    assert not tool.available()
    monkeypatch.setenv("TEST_ONE", "1")
    assert not tool.available()
    monkeypatch.setenv("TEST_TWO", "2")
    assert tool.available()
    verdict = 0
    assert not tool.available()
    verdict = OSError("no disk")
    assert not tool.available()
    assert "the check of tool 't' failed: OSError: no disk" in caplog.text


@pytest.mark.parametrize("toolset", ["terminal", "another"])
def test_a_name_that_is_taken_is_not_replaced_whatever_toolset_is_claimed(
    ctx: PluginContext, rig: Rig, caplog: pytest.LogCaptureFixture, toolset: str
) -> None:
    builtin = rig.tools.get("terminal")
    ctx.register_tool("terminal", toolset, SCHEMA, print)
    assert rig.tools.get("terminal") is builtin
    assert record_of(ctx).tools == []
    assert "tool 'terminal' is already registered by the runtime" in record_of(ctx).problems[0]
    assert "'cat/p'" in caplog.text


@pytest.mark.parametrize(
    "grant", [None, {}, {"allow_tool_override": False}, {"allow_tool_override": "yes"}, "nonsense"]
)
def test_override_without_the_grant_is_refused(ctx: PluginContext, rig: Rig, grant: Any) -> None:
    builtin = rig.tools.get("terminal")
    if grant is not None:
        rig.config.entries["cat/p"] = grant
    with pytest.raises(
        PluginToolOverrideError, match=r"set plugins\.entries\.cat/p\.allow_tool_override: true"
    ) as caught:
        ctx.register_tool("terminal", "terminal", SCHEMA, print, override=True)
    assert isinstance(caught.value, PermissionError)
    assert rig.tools.get("terminal") is builtin


def test_override_with_the_grant_replaces(ctx: PluginContext, rig: Rig) -> None:
    rig.config.entries["cat/p"] = {"allow_tool_override": True}
    ctx.register_tool("terminal", "terminal", SCHEMA, giving("mine"), override=True)
    assert run_tool(rig, "terminal", {}) == "mine"


def test_a_bundled_plugin_may_override(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[PluginContext] = []
    monkeypatch.setattr(sys, "test_kept", kept, raising=False)
    rig.write("ours", "import sys\ndef register(ctx): sys.test_kept.append(ctx)", where="bundled")
    rig.load(enabled=["ours"])
    kept[0].register_tool("terminal", "terminal", SCHEMA, giving("ours"), override=True)
    assert run_tool(rig, "terminal", {}) == "ours"


def test_a_plugin_may_replace_its_own_tool_but_not_anothers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = load(rig, monkeypatch, "first")
    second, record = load(rig, monkeypatch, "second")
    first.register_tool("t", "s", SCHEMA, giving("one"))
    first.register_tool("t", "s", SCHEMA, giving("two"))
    second.register_tool("t", "s", SCHEMA, giving("three"))
    assert run_tool(rig, "t", {}) == "two"
    assert "already registered by plugin 'first-name'" in record.problems[0]


# -- hooks, middleware, commands -------------------------------------------------------------------------------------


def test_hooks_and_middleware_are_subscribed_under_the_key(ctx: PluginContext, rig: Rig) -> None:
    ctx.register_hook("pre_tool_call", print)
    ctx.register_hook("pre_tool_call", print, timeout=1, on_error="deny")
    ctx.register_middleware("llm_request", print)
    assert [(callback.plugin, callback.site) for callback in rig.hooks.stats()] == [
        ("cat/p", "pre_tool_call"),
        ("cat/p", "pre_tool_call"),
        ("cat/p", "llm_request"),
    ]
    assert (record_of(ctx).hooks, record_of(ctx).middleware) == (["pre_tool_call"], ["llm_request"])


def test_unknown_names_are_problems_not_failures(ctx: PluginContext, caplog: pytest.LogCaptureFixture) -> None:
    ctx.register_hook("pre_tool_cal", print)
    ctx.register_middleware("llm_requests", print)
    assert record_of(ctx).problems == ["there is no hook 'pre_tool_cal'", "there is no middleware kind 'llm_requests'"]
    assert "did you mean 'pre_tool_call'?" in caplog.text


def test_commands_are_normalised_and_clashes_skipped(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    first, first_record = load(rig, monkeypatch, "first", reserved_commands=frozenset({"help"}))
    second, second_record = load(rig, monkeypatch, "second", reserved_commands=frozenset({"help"}))
    first.register_command(" /Say Hello ", lambda raw: raw.upper(), "Says hello.", "<name>")
    first.register_command("help", print)
    first.register_command(" / ", print)
    assert list(first_record.commands) == ["say-hello"]
    command = first_record.commands["say-hello"]
    assert (command.handler("x"), command.description, command.args_hint) == ("X", "Says hello.", "<name>")
    assert command.plugin == "first-name"
    assert [problem.partition(";")[0] for problem in first_record.problems] == [
        "command /help is the runtime's own",
        "a command needs a name",
    ]
    second.register_command("say-hello", print)
    assert "say-hello" in second_record.commands, "it was loaded into a set of its own"


def test_a_command_of_another_plugin_is_not_taken(rig: Rig) -> None:
    for name in ("first", "second"):
        rig.write(name, f"def register(ctx): ctx.register_command('hi', lambda raw: '{name}')")
    plugins = rig.load(enabled=["first", "second"])
    assert plugins.commands["hi"].handler("") == "first"
    assert plugins.plugins["second"].problems == ["command /hi is already registered by plugin 'first'"]


def test_cli_commands_are_recorded(ctx: PluginContext) -> None:
    ctx.register_cli_command("greet", "Greets.", print, repr, description="Longer.")
    command = record_of(ctx).cli_commands["greet"]
    assert (command.help, command.setup_fn, command.handler_fn, command.description) == (
        "Greets.",
        print,
        repr,
        "Longer.",
    )


# -- skills and side jobs --------------------------------------------------------------------------------------------


def test_skills(ctx: PluginContext, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("how to")
    ctx.register_skill("how-to", str(tmp_path / "SKILL.md"), "Explains.")
    skill = record_of(ctx).skills["p-name:how-to"]
    assert (skill.path, skill.description) == (tmp_path / "SKILL.md", "Explains.")
    for bad in ("with:colon", "with space", "", "é"):
        with pytest.raises(ValueError, match="only letters, digits"):
            ctx.register_skill(bad, tmp_path)
    with pytest.raises(FileNotFoundError, match="there is nothing at"):
        ctx.register_skill("missing", tmp_path / "nowhere")


def test_auxiliary_tasks(rig: Rig) -> None:
    rig.write("first", "def register(ctx): ctx.register_auxiliary_task('judge', display_name='J', description='d')")
    second = (
        "def register(ctx): "
        "ctx.register_auxiliary_task({key!r}, display_name='J', description='d', defaults={{'timeout': 5}})"
    )
    rig.write("second", second.format(key="judge"))
    rig.write("third", second.format(key="vision"))
    rig.write("fourth", second.format(key="bad key"))
    rig.write("fifth", second.format(key="other"))
    plugins = rig.load(enabled=["first", "second", "third", "fourth", "fifth"])
    assert plugins.auxiliary_tasks["judge"].defaults == {"provider": "auto", "timeout": 60}
    assert plugins.auxiliary_tasks["other"].defaults == {"provider": "auto", "timeout": 5}
    assert "already registered by plugin 'first'" in plugins.plugins["second"].error
    assert "is built in" in plugins.plugins["third"].error
    assert "only letters, digits" in plugins.plugins["fourth"].error


# -- surfaces to come ------------------------------------------------------------------------------------------------


def test_registrations_for_surfaces_to_come_wait(ctx: PluginContext) -> None:
    offered = [
        *("memory_provider", "context_engine", "cron_scheduler", "image_gen_provider", "video_gen_provider"),
        *("web_search_provider", "browser_provider", "tts_provider", "transcription_provider", "secret_source"),
        "dashboard_auth_provider",
    ]
    for what in offered:
        named = type("Named", (base_of(what) or object,), {"name": "mine"})
        getattr(ctx, f"register_{what}")(named())
    assert [(entry.kind, entry.name) for entry in record_of(ctx).waiting] == [(what, "mine") for what in offered]


def test_a_second_context_engine_is_rejected(ctx: PluginContext) -> None:
    first, second = ContextEngine(), ContextEngine()
    ctx.register_context_engine(first)
    ctx.register_context_engine(second)
    assert [entry.value for entry in record_of(ctx).waiting] == [first]
    assert "the first one stays" in record_of(ctx).problems[0]


def test_platforms_and_slack_handlers_wait_with_all_they_were_given(ctx: PluginContext) -> None:
    ctx.register_platform("irc", "IRC", dict, bool, required_env=["IRC_SERVER"], emoji="*", pii_safe=True)
    ctx.register_slack_action_handler("button", print)
    platform, handler = record_of(ctx).waiting
    assert (platform.kind, platform.name, platform.value) == ("platform", "irc", dict)
    assert platform.options["label"] == "IRC"
    assert platform.options["required_env"] == ["IRC_SERVER"]
    assert (platform.options["emoji"], platform.options["pii_safe"]) == ("*", True)
    assert (handler.kind, handler.name, handler.value) == ("slack_action_handler", "button", print)
    with pytest.raises(ValueError, match="needs a function"):
        ctx.register_slack_action_handler("button", "no")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="must be text"):
        ctx.register_slack_action_handler("", print)


#: The positional parameters of every member, as plugins written for the contract call them.
SIGNATURES = {
    "register_tool": "name toolset schema handler check_fn requires_env is_async description emoji override",
    "register_hook": "hook_name callback",
    "register_middleware": "kind callback",
    "register_command": "name handler description args_hint",
    "register_cli_command": "name help setup_fn handler_fn description",
    "dispatch_tool": "tool_name args",
    "inject_message": "content role",
    "register_skill": "name path description",
    "register_auxiliary_task": "key",
    "register_context_engine": "engine",
    "register_image_gen_provider": "provider",
    "register_platform": "name label adapter_factory check_fn validate_config required_env install_hint",
    "register_slack_action_handler": "action_id callback",
}


@pytest.mark.parametrize("member", SIGNATURES)
def test_members_take_the_contracts_parameters_in_order(member: str) -> None:
    parameters = list(inspect.signature(getattr(PluginContext, member)).parameters.values())[1:]
    positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert positional == SIGNATURES[member].split()
