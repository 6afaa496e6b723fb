"""``hermes hooks``: lists, tests, accepts and revokes hook commands, and prints the hook contract."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, NamedTuple

from hermes.base.config import Config, apply_env, config_path, hermes_home, load_config, load_env_file
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import HermesError
from hermes.base.sanitize import redact_text
from hermes.plugins.loading.discovery import discover, is_set
from hermes.plugins.loading.loader import decide
from hermes.plugins.shell_hooks.command import HookCommand, read_hook_commands
from hermes.plugins.shell_hooks.consent import AllowList
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, OneOf, flag
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line, print_note
from hermes.tools.sandbox.confinement import Confinements


class Configured(NamedTuple):
    """The hook commands of a home."""

    home: Path
    config: Config
    commands: list[HookCommand]
    warnings: list[str]
    #: Whether a setting allows every command.
    accept_all: bool


def _configured() -> Configured:
    home = hermes_home()
    warnings: list[str] = []
    apply_env(load_env_file(home, warnings=warnings))
    loaded = load_config(home)
    commands, remarks = read_hook_commands(loaded.config.hooks.events, config_path(home))
    accept_all = loaded.config.hooks_auto_accept or is_set("HERMES_ACCEPT_HOOKS")
    warnings += (*loaded.warnings, *remarks)
    for warning in warnings:
        print_note(f"Warning: {_printable(warning)}")
    return Configured(home, loaded.config, commands, warnings, accept_all)


def _list(_args: argparse.Namespace) -> Report:
    configured = _configured()
    allow_list = AllowList(configured.home)
    rows = [_hook_document(command, allow_list, configured.accept_all) for command in configured.commands]
    plugins = _plugins(configured)
    document = {
        "shell_hooks": rows,
        "plugins": plugins,
        "accept_all": configured.accept_all,
        "warnings": [_printable(warning) for warning in configured.warnings],
    }
    none = f"No hook commands are configured (the hooks section of {config_path(configured.home)})."
    lines = [f"{row['name']}  {row['event']}  {row['consent']}  {row['command']}  ({_terms(row)})" for row in rows]
    using = [f"{plugin['key']}  plugin, {plugin['status']}  {', '.join(plugin['hooks'])}" for plugin in plugins]
    return Report(document, [*(lines or [none]), *using])


def _terms(row: dict[str, Any]) -> str:
    terms = [f"matcher {row['matcher']}"] if row["matcher"] else []
    terms.append(f"timeout {row['timeout']:g} s")
    return ", ".join([*terms, "a failure blocks the call"] if row["on_error"] == "deny" else terms)


def _hook_document(command: HookCommand, allow_list: AllowList, accept_all: bool) -> dict[str, Any]:
    question = allow_list.question(command, Path.cwd())
    return {
        "name": command.name,
        "event": command.event,
        "command": _printable(command.command),
        "matcher": command.matcher.pattern if command.matcher else "",
        "timeout": command.timeout,
        "on_error": command.on_error,
        "consent": "accepted by a setting" if accept_all else question.consent,
        "approved_at": question.before.approved_at if question.before else None,
        "script": str(question.script) if question.script else None,
    }


def _plugins(configured: Configured) -> list[dict[str, Any]]:
    """Plugins whose manifests name hooks; bundled ones only when enabled. Imports no plugin code."""
    settings = configured.config.plugins
    found: list[dict[str, Any]] = []
    for key, manifest in discover(configured.home, Path.cwd()).items():
        if manifest.provides_hooks:
            decision = decide(manifest, set(settings.enabled), settings.disabled)
            if manifest.source == "bundled" and decision != "load":
                continue
            status = "enabled" if decision == "load" else decision
            found.append(
                {"key": _printable(key), "status": status, "hooks": [_printable(h) for h in manifest.provides_hooks]}
            )
    return found


def _accept(args: argparse.Namespace) -> None:
    configured, wanted = _configured(), None if args.all else args.command
    chosen = [one for one in configured.commands if wanted is None or wanted in (one.name, one.command)]
    if not configured.commands:
        raise HermesError(f"no hook commands are configured in {config_path(configured.home)}")
    if not chosen:
        known = "; ".join(f"{one.name} ({_printable(one.command)})" for one in configured.commands)
        raise HermesError(f"{wanted!r} is not a configured hook command; configured: {known}")
    allow_list = AllowList(configured.home)
    allow_list.accept(*(allow_list.question(command, Path.cwd()) for command in chosen))
    for command in chosen:
        print(f"Accepted for {command.event}: {_printable(command.command)}")


def _revoke(args: argparse.Namespace) -> None:
    configured, wanted = _configured(), None if args.all else args.command
    named = next((one.command for one in configured.commands if one.name == wanted), wanted)
    allow_list = AllowList(configured.home)
    gone = allow_list.revoke(named)
    if not gone and wanted is not None:
        accepted = "; ".join(_printable(command) for command in allow_list.commands()) or "none"
        raise HermesError(f"{wanted!r} is not an accepted hook command; accepted: {accepted}")
    for approval in gone:
        print(f"Revoked for {approval.event}: {_printable(approval.command)}")
    if not gone:
        print("No hook commands were accepted.")
    if configured.accept_all:
        setting = "HERMES_ACCEPT_HOOKS" if is_set("HERMES_ACCEPT_HOOKS", os.environ) else "hooks_auto_accept"
        print_note(f"Warning: {setting} still allows every hook command")


def _test(args: argparse.Namespace) -> int:
    from hermes.surfaces.cli.extend.hooks.trial import try_hook

    configured = _configured()
    allow_list = None if args.accept_hooks or configured.accept_all else AllowList(configured.home)
    confinements = Confinements(configured.config.terminal, home_redactor(configured.home))
    return try_hook(args, configured.home, configured.commands, allow_list, confinements)


def _printable(text: str) -> str:
    return one_line(redact_text(text))


_CHOSEN = OneOf(
    Argument("command COMMAND", "as configured, or its name: shell:1", nargs="?"),
    flag("--all", "every command"),
    required=True,
)

COMMAND = CommandSpec(
    default="list",
    actions=(
        Action("list", _list, "show hook commands, and the plugins that use hooks (the default)").takes(JSON),
        Action("test", _test, "run the commands of one hook with a sample event").takes(
            Argument("event EVENT", "a hook, such as pre_tool_call"),
            Argument("--tool NAME", "tool of the sample event (default: terminal)", default="terminal"),
            Argument("--args JSON", "arguments of the tool, as a JSON object", default=""),
            flag("--accept-hooks", "also run commands that are not accepted"),
        ),
        Action("accept", _accept, "allow a command to run").takes(_CHOSEN),
        Action("revoke", _revoke, "no longer allow a command to run").takes(_CHOSEN),
        Action(
            "spec", "extend.hooks.spec:run_spec", "print the contract: hooks, middleware kinds and their fields"
        ).takes(Argument("name NAME", "only this hook or middleware kind", nargs="?", default=""), JSON),
    ),
    epilog=(
        "A hook command reads the event as JSON on stdin and answers with JSON on stdout. Exit code 2 blocks a tool "
        "call, with the reason on stderr; any other code except 0 is a failure."
    ),
)
