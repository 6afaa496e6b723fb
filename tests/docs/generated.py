"""The blocks of the pages that are made from the code, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.surfaces.cli.commands import COMMANDS
from hermes.tools.builtin import builtin_tools

from . import (
    command_tables,
    config_tables,
    contract_pages,
    contract_tables,
    journal_tables,
    plugin_tables,
    policy_tables,
    provider_tables,
    testing_tables,
    tool_tables,
)
from .help_text import help_text, usage_lines, words_of
from .pages import with_generated

_SESSION_ACTIONS = ("list", "show", "search", "export", "rename", "delete")
_CONFIG_ACTIONS = ("show", "get", "path", "set", "unset", "edit")
_PLUGIN_ACTIONS = ("list", "info", "check", "test", "enable", "disable", "install", "update", "remove", "new")
_MCP_ACTIONS = ("add", "remove", "list", "configure", "login", "logout", "serve", "test")
_HOOK_ACTIONS = ("list", "test", "accept", "revoke", "spec")

MAKERS: dict[str, Callable[[], str]] = {
    "settings": config_tables.settings_in_effect,
    "settings not in effect": config_tables.settings_not_in_effect,
    "hooks": contract_tables.hooks_overview,
    "pairs": contract_tables.pairs,
    "events": contract_tables.events,
    "paths": contract_pages.paths,
    "middleware": contract_tables.middleware_overview,
    **{f"hook {name}": partial(contract_pages.hook_text, name) for name in HOOKS},
    **{f"middleware {kind}": partial(contract_pages.middleware_text, kind) for kind in MIDDLEWARE},
    "toolsets": tool_tables.toolset_table,
    **{f"tool {tool.name}": partial(tool_tables.tool_text, tool.name) for tool in builtin_tools()},
    "providers": provider_tables.profiles,
    "quirks": provider_tables.quirks,
    "failures": provider_tables.failures,
    "timeouts": provider_tables.timeouts,
    "ctx": plugin_tables.members,
    "ctx waiting": plugin_tables.waiting,
    "capabilities": plugin_tables.capabilities,
    "gateway events": contract_tables.gateway_events,
    "compatibility names": plugin_tables.compatibility_names,
    "conformance rules": testing_tables.conformance_rules,
    "host checks": testing_tables.host_checks,
    "faults": testing_tables.faults,
    "pytest fixtures": testing_tables.fixtures,
    "tables": journal_tables.tables,
    "records": journal_tables.records,
    "approval rules": policy_tables.rules,
    "permission modes": policy_tables.modes,
    "policy figures": policy_tables.figures,
    "files that run code": policy_tables.code_files,
    "settings of git that run code": policy_tables.git_settings,
    "files with keys": policy_tables.stores,
    "slash commands": command_tables.slash_commands,
    **{f"help {command}": partial(help_text, command) for command in COMMANDS},
    "usage sessions": partial(usage_lines, *(f"sessions {action}" for action in _SESSION_ACTIONS)),
    "usage plugins": partial(usage_lines, *(f"plugins {action}" for action in _PLUGIN_ACTIONS)),
    "usage hooks": partial(usage_lines, *(f"hooks {action}" for action in _HOOK_ACTIONS)),
    "usage config": partial(usage_lines, *(f"config {action}" for action in _CONFIG_ACTIONS)),
    "usage mcp": partial(usage_lines, *(f"mcp {action}" for action in _MCP_ACTIONS)),
    "usage a2a": partial(usage_lines, "a2a serve", "a2a call"),
}


def up_to_date(page: str) -> str:
    """The page with its generated blocks made anew."""
    return with_generated(page, _renewed)


def rewrite(path: Path) -> bool:
    """Bring a page up to date; whether there was anything to do."""
    before = path.read_text()
    after = up_to_date(before)
    if after != before:
        path.write_text(after)
    return after != before


def _renewed(name: str, present: str) -> str:
    """The new text, or the present one when only line breaks differ: they depend on the version of Python."""
    made = f"\n{MAKERS[name]()}\n"
    return present if words_of(made) == words_of(present) else made
