"""``hermes hooks``: lists, tests, accepts and revokes hook commands, and prints the hook contract."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from hermes.base.config import Config, apply_env, config_path, hermes_home, load_config, load_env_file
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import HermesError, did_you_mean
from hermes.base.sanitize import redact_text
from hermes.contract.fields import Field
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA, PAIRS, HookSpec
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA, MiddlewareSpec
from hermes.plugins.loading.discovery import discover, is_set
from hermes.plugins.loading.loader import decide
from hermes.plugins.shell_hooks.command import HookCommand, read_hook_commands
from hermes.plugins.shell_hooks.consent import AllowList, ConsentAnswer, ConsentQuestion
from hermes.plugins.shell_hooks.load import ShellHook, agreement_to
from hermes.plugins.shell_hooks.protocol import HookCommandFailed, read_verdict
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, OneOf, flag
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import can_prompt, one_line, plain, print_warnings, short_duration, warn
from hermes.surfaces.commands.text import columns
from hermes.tools.declarations.builtin import builtin_declaration
from hermes.tools.sandbox.confinement import Confinements

#: Realistic sample values.
_SAMPLES: dict[str, Any] = {
    "telemetry_schema_version": OBSERVER_SCHEMA,
    "session_id": "sample-session",
    "task_id": "sample-task",
    "turn_id": "sample-session:sample-task:1",
    "api_request_id": "sample-session:sample-task:1:api:1",
    "tool_call_id": "call_sample",
    "platform": "cli",
    "status": "ok",
    "result": '{"output": "hello", "exit_code": 0, "error": null}',
    "user_message": "Say hello.",
    "response_text": "Hello.",
    "assistant_response": "Hello.",
    "final_response": "Hello.",
    "command": "echo hello",
    "output": "hello\n",
    "changed_paths": ["sample.py"],
}
_BY_TYPE: dict[str, Any] = {"str": "sample", "int": 1, "float": 1.0, "bool": True, "dict": {}, "Record": {}}
#: Answers to the question whether a command may run.
_ANSWERS: dict[str, ConsentAnswer] = {"y": "always", "yes": "always", "o": "once", "once": "once"}


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
    print_warnings(warnings, _printable)
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
        warn(f"{setting} still allows every hook command")


def _test(args: argparse.Namespace) -> int:
    """Run every command of the hook that applies; 1 when one of them failed."""
    configured, event = _configured(), args.event
    if event not in HOOKS:
        hint = did_you_mean(event, HOOKS, otherwise="'hermes hooks spec' lists them")
        raise HermesError(f"there is no hook {event!r}{hint}")
    payload = sample_payload(event, args.tool, _arguments(args.tool, args.args))
    chosen = [command for command in configured.commands if command.event == event]
    if not chosen:
        raise HermesError(f"no command is configured for {event}; add one under hooks.{event} in config.yaml")
    allow_list = None if args.accept_hooks or configured.accept_all else AllowList(configured.home)
    confinements = Confinements(configured.config.terminal, home_redactor(configured.home))
    worked = [_try_one(command, payload, configured.home, allow_list, confinements) for command in chosen]
    return 0 if all(worked) else 1


def sample_payload(event: str, tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """An event as the contract describes it, with made-up values."""
    payload = {field.name: _sample(field) for field in HOOKS[event].fields if field.always}
    return payload | {name: value for name, value in (("tool_name", tool), ("args", args)) if name in payload}


def _sample(field: Field) -> Any:
    if field.name in _SAMPLES or "None" in field.type:
        return _SAMPLES.get(field.name)
    return [] if field.type.startswith("list") else _BY_TYPE.get(field.type.partition(" ")[0])


def _arguments(tool: str, text: str) -> dict[str, Any]:
    if not text:
        return {name: "echo hello" for name, kind in builtin_declaration(tool).runs.items() if kind == "command"}
    advice = 'give an object such as \'{"path": "notes.txt"}\''
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise HermesError(f"--args is not JSON ({error}); {advice}") from None
    if not isinstance(value, dict):
        raise HermesError(f"--args is a JSON {type(value).__name__}; {advice}")
    return cast("dict[str, Any]", value)


def _try_one(
    command: HookCommand,
    payload: dict[str, Any],
    home: Path,
    allow_list: AllowList | None,
    confinements: Confinements,
) -> bool:
    cwd = Path.cwd()
    print(f"{command.name}  {_printable(command.command)}")
    if not command.applies_to(payload.get("tool_name")):
        print(f"  not run: its matcher does not match {payload.get('tool_name')}")
        return True
    agreement = agreement_to(command, allow_list, cwd, ask_at_terminal)
    hook = ShellHook(command, agreement, home, lambda _session: cwd, confinements)
    try:
        finished = hook.run(payload)
        code = "none (timeout)" if finished.exit_code is None else str(finished.exit_code)
        print(f"  exit code: {code}\n  time: {short_duration(finished.seconds)}")
        for name, output in (("stdout", finished.stdout), ("stderr", finished.stderr)):
            if output.strip():
                print(f"  {name}: {_printable(output)}")
        answer = read_verdict(command.event, finished)
    except HookCommandFailed as error:
        blocks = command.on_error == "deny"
        consequence = "the call would be blocked" if blocks else "the turn would continue without it"
        print(f"  failed: {_printable(str(error))} ({consequence})")
        return False
    print(f"  verdict: {_printable(msgspec.json.encode(answer).decode()) if answer is not None else 'none'}")
    return True


def ask_at_terminal(question: ConsentQuestion) -> ConsentAnswer | None:
    """The answer; ``None`` without a terminal."""
    if not can_prompt():
        return None
    print(_question_text(question), file=sys.stderr)
    print("Run it? [y]es and do not ask again / [o]nce / [N]o: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        print(file=sys.stderr)  # at the end of the input, the cursor is still on the line of the question
    return _ANSWERS.get(line.strip().lower(), "no")


def _question_text(question: ConsentQuestion) -> str:
    command = question.command
    lines = [f"The configuration runs this command for {command.event}:", f"  {command.command}"]
    if question.script is not None:
        lines.append(f"  script: {question.script}")
    if question.before is not None:
        lines.append(f"  The script has changed since you accepted it on {question.before.approved_at}.")
    return plain(redact_text("\n".join(lines)))


def _spec(args: argparse.Namespace) -> Report:
    name = args.name
    if not name:
        return Report(contract_document(), _overview())
    if name not in HOOKS and name not in MIDDLEWARE:
        hint = did_you_mean(name, [*HOOKS, *MIDDLEWARE], otherwise="'hermes hooks spec' lists them")
        raise HermesError(f"there is no hook or middleware kind {name!r}{hint}")
    document = _hook(HOOKS[name]) if name in HOOKS else _middleware(MIDDLEWARE[name])
    return Report(document, _page(name, document))


def contract_document() -> dict[str, Any]:
    """The whole contract."""
    return {
        "schema_versions": {"observer": OBSERVER_SCHEMA, "middleware": MIDDLEWARE_SCHEMA},
        "hooks": [_hook(spec) for spec in HOOKS.values()],
        "middleware": [_middleware(spec) for spec in MIDDLEWARE.values()],
        "pairs": [pair._asdict() for pair in PAIRS],
    }


def _hook(spec: HookSpec) -> dict[str, Any]:
    more = {"answers": spec.answers, "live": spec.live or None, "schema_version": OBSERVER_SCHEMA}
    return {**spec._asdict(), **more, "fields": [field._asdict() for field in spec.fields]}


def _middleware(spec: MiddlewareSpec) -> dict[str, Any]:
    more = {"original": spec.original, "schema_version": MIDDLEWARE_SCHEMA}
    return {**spec._asdict(), **more, "fields": [field._asdict() for field in spec.fields]}


def _overview() -> list[str]:
    width = max(map(len, (*HOOKS, *MIDDLEWARE)))
    lines = [f"hooks ({OBSERVER_SCHEMA})"]
    lines += [f"  {spec.name:<{width}}  {spec.when}" for spec in HOOKS.values()]
    lines += [f"middleware ({MIDDLEWARE_SCHEMA})"]
    lines += [f"  {spec.kind:<{width}}  {spec.when}" for spec in MIDDLEWARE.values()]
    return [*lines, "'hermes hooks spec NAME' shows the fields of one of them."]


def _page(name: str, part: dict[str, Any]) -> list[str]:
    lines = [f"{name} ({part['schema_version']})", f"when: {part['when']}", f"returns: {part['returns']}"]
    if part.get("live"):
        lines.append(f"live: {part['live']} may be changed in place")
    rows = [
        (field["name"], field["type"], field["safety"], field["meaning"] + ("" if field["always"] else " (optional)"))
        for field in part["fields"]
    ]
    return [*lines, "fields:", *columns(rows)]


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
        Action("spec", _spec, "print the contract: hooks, middleware kinds and their fields").takes(
            Argument("name NAME", "only this hook or middleware kind", nargs="?", default=""), JSON
        ),
    ),
    epilog=(
        "A hook command reads the event as JSON on stdin and answers with JSON on stdout. Exit code 2 blocks a tool "
        "call, with the reason on stderr; any other code except 0 is a failure."
    ),
)
