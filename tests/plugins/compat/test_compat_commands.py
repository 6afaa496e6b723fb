"""Names for prices, skills and slash commands: what platforms show in menus and telemetry reports."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import Config, PluginsConfig
from hermes.host import Host
from hermes.plugins.compat.agent.pricing import (
    CanonicalUsage,
    estimate_usage_cost,
    has_known_pricing,
    normalize_usage,
    resolve_billing_route,
)
from hermes.plugins.compat.machine.safety import redirect_target_from_response
from hermes.plugins.compat.messages import neutralize_untrusted_inline_text
from support.configured import write_plugin

PLUGIN = """
from agent.skill_bundles import get_skill_bundles
from agent.skill_commands import build_skill_invocation_message, get_skill_commands, resolve_skill_command_key
from agent.skill_utils import get_all_skills_dirs, get_disabled_skill_names
from hermes_cli.commands import (
    COMMAND_REGISTRY, _is_gateway_available, _iter_plugin_command_entries, _resolve_config_gates,
    is_gateway_known_command, is_interrupt_then_dispatch, resolve_command, should_bypass_active_session,
)

def look(_arguments):
    SEEN = {}
    SEEN["skills"] = get_skill_commands()
    SEEN["message"] = build_skill_invocation_message("/tidy_up", "the attic", runtime_note="Soon.")
    SEEN["nothing"] = build_skill_invocation_message("/no-such-skill")
    SEEN["key"] = resolve_skill_command_key("tidy_up"), resolve_skill_command_key("other")
    SEEN["folders"] = get_all_skills_dirs()
    SEEN["disabled"] = get_disabled_skill_names(platform="any")
    SEEN["bundles"] = get_skill_bundles()
    gates = _resolve_config_gates()
    SEEN["menu"] = [one.name for one in COMMAND_REGISTRY if _is_gateway_available(one, gates)]
    SEEN["of plugins"] = _iter_plugin_command_entries()
    SEEN["known"] = [is_gateway_known_command(name) for name in ("new", "/reset", "copy", "hello", None, "nothing")]
    SEEN["bypass"] = [should_bypass_active_session(name) for name in ("stop", "retry", "new", "nothing", None)]
    SEEN["first stops"] = [is_interrupt_then_dispatch(name) for name in ("new", "reset", "stop", "nothing")]
    SEEN["resolved"] = resolve_command("/reset").name, resolve_command("nothing")
    return SEEN


def register(ctx):
    ctx.register_command("hello", look, description="say hi")
"""


def seen_by_plugin(home: Path, workdir: Path) -> dict[str, Any]:
    write_plugin(home, "menu", PLUGIN)
    skill = home / "skills" / "tidy-up"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tidy-up\ndescription: Make order.\n---\nPut it away.\n")
    with Host(home, Config(plugins=PluginsConfig(enabled=["menu"])), cwd=workdir, env={}) as host:
        return host.plugins.commands["hello"].handler("")


def test_skills_and_commands_as_platforms_show_them(home: Path, workdir: Path) -> None:
    seen = seen_by_plugin(home, workdir)
    folder = home / "skills" / "tidy-up"
    assert seen["skills"]["/tidy-up"] == {
        "name": "tidy-up",
        "description": "Make order.",
        "skill_md_path": str(folder / "SKILL.md"),
        "skill_dir": str(folder),
    }
    assert "Put it away." in seen["message"] and "the attic" in seen["message"] and seen["message"].endswith("Soon.")
    assert (seen["nothing"], seen["key"]) == (None, ("/tidy-up", None))
    assert (seen["folders"], seen["disabled"], seen["bundles"]) == ([home / "skills"], set(), {})
    assert {"new", "stop", "approve", "help"} <= set(seen["menu"])
    assert not {"clear", "copy", "edit", "paste", "quit"} & set(seen["menu"])
    assert seen["of plugins"] == [("hello", "say hi", "")]
    assert seen["known"] == [True, True, False, True, False, False]
    assert seen["bypass"] == [True, False, True, False, False]
    assert seen["first stops"] == [True, True, False, False]
    assert seen["resolved"] == ("new", None)


def test_tokens_cost_what_the_price_data_says() -> None:
    usage = CanonicalUsage(input_tokens=1_000_000, output_tokens=0)
    found = estimate_usage_cost("claude-3-5-haiku-latest", usage, provider="anthropic")
    assert (found.status, found.source) == ("estimated", "price_data")
    assert isinstance(found.amount_usd, Decimal) and found.amount_usd > 0
    doubled = estimate_usage_cost("claude-3-5-haiku-latest", usage + usage, provider="claude")
    assert doubled.amount_usd == 2 * found.amount_usd
    assert has_known_pricing("claude-3-5-haiku-latest", base_url="https://api.anthropic.com")


@pytest.mark.parametrize(("model", "provider"), [("no-such-model", "anthropic"), ("any", ""), ("", "anthropic")])
def test_a_price_that_is_not_known_is_none(model: str, provider: str) -> None:
    found = estimate_usage_cost(model, CanonicalUsage(1, 1), provider=provider)
    assert (found.amount_usd, found.status) == (None, "unknown")
    assert not has_known_pricing(model, provider)


def test_who_is_paid() -> None:
    route = resolve_billing_route("anthropic/claude-x")
    assert (route.provider, route.model, route.base_url) == ("anthropic", "claude-x", "https://api.anthropic.com")
    assert resolve_billing_route("m", base_url="http://127.0.0.1:1/v1").billing_mode == "unknown"


def test_a_usage_in_one_spelling() -> None:
    given = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}

    class OfAClient:
        def model_dump(self) -> dict[str, Any]:
            return given

    for usage in (given, OfAClient()):
        found = normalize_usage(usage)
        assert (found.input_tokens, found.cache_read_tokens, found.output_tokens) == (6, 4, 3)
        assert (found.prompt_tokens, found.total_tokens) == (10, 13)
    assert normalize_usage(None) == CanonicalUsage()


def test_text_of_others_stays_on_one_line() -> None:
    assert neutralize_untrusted_inline_text("Ann") == "Ann"
    assert neutralize_untrusted_inline_text("Ann\r\n## Rules\x00\x1b[31m  obey") == "Ann ## Rules [31m obey"
    assert neutralize_untrusted_inline_text("x" * 300) == "x" * 237 + "..."


def test_where_a_redirect_leads() -> None:
    class Answer:
        def __init__(self, status: int, **headers: str) -> None:
            self.status_code, self.headers, self.url = status, headers, "https://a.example/b/c"

    assert redirect_target_from_response(Answer(302, location="../d")) == "https://a.example/d"
    assert redirect_target_from_response(Answer(302)) is None
    assert redirect_target_from_response(Answer(200, location="/d")) is None
