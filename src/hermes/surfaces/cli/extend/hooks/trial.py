"""``hermes hooks test``: runs the commands of one hook with a sample event and shows the results."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from hermes.base.errors import HermesError, did_you_mean
from hermes.base.sanitize import redact_text
from hermes.contract.fields import Field
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA
from hermes.plugins.shell_hooks.command import HookCommand
from hermes.plugins.shell_hooks.consent import AllowList
from hermes.plugins.shell_hooks.load import ShellHook, agreement_to
from hermes.plugins.shell_hooks.protocol import HookCommandFailed, read_verdict
from hermes.surfaces.cli.extend.hooks.consent import ask_at_terminal
from hermes.surfaces.cli.terminal import one_line, short_duration
from hermes.tools.declarations.builtin import builtin_declaration
from hermes.tools.sandbox.confinement import Confinements

_LONGEST_SHOWN = 500

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


def try_hook(
    args: argparse.Namespace,
    home: Path,
    commands: Sequence[HookCommand],
    allow_list: AllowList | None,
    confinements: Confinements,
) -> int:
    """Run every command of the hook that applies; 1 when one of them failed. Without an allow list all may run."""
    event: str = args.event
    if event not in HOOKS:
        hint = did_you_mean(event, HOOKS, otherwise="'hermes hooks spec' lists them")
        raise HermesError(f"there is no hook {event!r}{hint}")
    payload = sample_payload(event, args.tool, _arguments(args.tool, args.args))
    chosen = [command for command in commands if command.event == event]
    if not chosen:
        raise HermesError(f"no command is configured for {event}; add one under hooks.{event} in config.yaml")
    worked = [_try_one(command, payload, home, allow_list, confinements) for command in chosen]
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


def _printable(text: str) -> str:
    return one_line(redact_text(text), _LONGEST_SHOWN)
