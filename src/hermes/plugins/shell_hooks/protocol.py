"""Protocol of hook commands: the event as JSON on stdin, a few environment variables, the answer as JSON on stdout.

A command answers with one JSON document, or with nothing. Exit code 2 is a refusal with its reason on stderr, for
hooks that can refuse; any other code but 0 is a failure of the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from hermes.base.errors import PluginError
from hermes.base.sanitize import Redactor, sanitise
from hermes.contract.hooks import HOOKS
from hermes.plugins.shell_hooks.process import MAX_STDOUT, Finished

#: The text that each transforming hook hands over for replacement. It is passed whole, because what the command
#: prints replaces it; every other text in ``extra`` is bounded and redacted.
SUBJECTS = {
    "transform_llm_output": "response_text",
    "transform_tool_result": "result",
    "transform_terminal_output": "output",
}

#: Set while a hook command runs, so that a runtime started by one knows where it is.
EVENT_VARIABLE = "HERMES_HOOK_EVENT"

_VARIABLES = {
    "session_id": "HERMES_SESSION_ID",
    "task_id": "HERMES_TASK_ID",
    "turn_id": "HERMES_TURN_ID",
    "tool_name": "HERMES_TOOL_NAME",
    "tool_call_id": "HERMES_TOOL_CALL_ID",
}
_LONGEST_VALUE = 1_000

#: Fields at the top of the document instead of in ``extra``.
_TOP_LEVEL = frozenset({"tool_name", "args", "session_id"})

REFUSED = 2

_LONGEST_REASON = 4_000
_LONGEST_COMPLAINT = 400

#: Answers that mean no objection.
_NO_OBJECTION = ("allow", "approve")


class HookCommandFailed(PluginError):
    """A hook command did not do its work."""


def hook_input(event: str, payload: Mapping[str, Any], cwd: Path, redactor: Redactor) -> bytes:
    """The event as a JSON document. ``tool_input`` holds the arguments as they are: a policy must see them all."""
    subject = SUBJECTS.get(event)
    extra: dict[str, Any] = {}
    for name, value in payload.items():
        if name == subject and isinstance(value, str):
            extra[name] = _encodable(value)
        elif name not in _TOP_LEVEL:
            extra[name] = sanitise(value, redactor=redactor)
    document = {
        "hook_event_name": event,
        "tool_name": payload.get("tool_name"),
        "tool_input": _whole(payload.get("args")),
        "session_id": payload.get("session_id", ""),
        "cwd": _encodable(str(cwd)),
        "extra": extra,
    }
    return msgspec.json.encode({name: _safe(value) for name, value in document.items()})


def hook_variables(event: str, payload: Mapping[str, Any], home: Path) -> dict[str, str]:
    """The environment variables that say what the command is run for."""
    values = {name: payload.get(field) for field, name in _VARIABLES.items()}
    return {
        **{name: _variable(value) for name, value in values.items() if isinstance(value, str) and value},
        EVENT_VARIABLE: event,
        "HERMES_HOME": str(home),
    }


def _whole(value: Any) -> Any:
    """The value itself when it is JSON data, else a sanitised form of it."""
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return sanitise(value)


def _safe(value: Any) -> Any:
    return _encodable(value) if isinstance(value, str) else value


def _encodable(text: str) -> str:
    """The text with question marks for lone surrogates, which no JSON can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _variable(text: str) -> str:
    return _encodable(text).replace("\0", "")[:_LONGEST_VALUE]


def read_verdict(event: str, finished: Finished) -> Any:
    """The hook's answer as a Python callback would return it. ``HookCommandFailed`` when there is none to be had."""
    if finished.exit_code is None:
        raise HookCommandFailed(f"it was stopped after {finished.seconds:.1f} s without an answer")
    if finished.exit_code == REFUSED and event in ("pre_tool_call", "pre_verify"):
        return _refusal(event, finished.stderr)
    if finished.exit_code != 0:
        raise HookCommandFailed(f"it ended with exit code {finished.exit_code}{_complaint(finished.stderr)}")
    if not HOOKS[event].answers or not finished.stdout.strip():
        return None
    if finished.overflowed:
        raise HookCommandFailed(f"it printed more than {MAX_STDOUT:,} bytes")
    return _answer(event, _decode(finished.stdout))


def _answer(event: str, document: Any) -> Any:
    if event in SUBJECTS:
        return _replacement(SUBJECTS[event], document)
    if event == "pre_llm_call" and isinstance(document, str):
        return document
    if not isinstance(document, dict):
        raise HookCommandFailed(f"it printed a JSON {_noun(document)}; an object is expected, such as {{}}")
    fields = cast("dict[str, Any]", document)
    read = {"pre_llm_call": _context, "pre_tool_call": _decision, "pre_verify": _nudge}.get(event)
    return fields if read is None else read(fields)


def _decision(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Block the call, send it to a person, change its arguments, or nothing of that."""
    action, decision = fields.get("action"), fields.get("decision")
    if action == "block" or decision == "block":
        return _refusal("pre_tool_call", _reason(fields))
    if action == "approve":
        kept = {name: fields[name] for name in ("message", "rule_key") if isinstance(fields.get(name), str)}
        return {"action": "approve", **kept}
    if action == "modify" or decision == "modify":
        return _modification(fields)
    if action not in (None, "allow"):
        raise HookCommandFailed(f"its action is {action!r}; it may be block, approve (ask a person), modify or allow")
    if decision not in (None, *_NO_OBJECTION):
        raise HookCommandFailed(f"its decision is {decision!r}; it may be block, modify or allow")
    return None


def _modification(fields: dict[str, Any]) -> dict[str, Any]:
    """Other values for some of the call's arguments."""
    args = fields.get("args", fields.get("tool_input"))
    if not isinstance(args, dict):
        raise HookCommandFailed("it wants to modify the call and gives no object under args")
    return {"action": "modify", "args": args}


def _nudge(fields: dict[str, Any]) -> dict[str, Any] | None:
    if fields.get("action") == "continue" or fields.get("decision") == "block":
        return _refusal("pre_verify", _reason(fields))
    return None


def _refusal(event: str, reason: str) -> dict[str, Any]:
    reason = reason.strip()[:_LONGEST_REASON]
    if event == "pre_verify":
        return {
            "action": "continue",
            "message": reason or "A check of your work asks you to continue, without saying why.",
        }
    return {"action": "block", "message": reason or "Blocked by a hook command, which gave no reason."}


def _context(fields: dict[str, Any]) -> dict[str, Any] | None:
    context = fields.get("context")
    if context is None:
        return None
    if not isinstance(context, str):
        raise HookCommandFailed(f"its context is a JSON {_noun(context)}; a text is expected")
    return {"context": context}


def _replacement(subject: str, document: Any) -> str | None:
    """The text that replaces the subject: the document itself, or its field of the same name."""
    text = cast("dict[str, Any]", document).get(subject) if isinstance(document, dict) else document
    if text is None or isinstance(text, str):
        return text
    raise HookCommandFailed(f"it printed a JSON {_noun(text)}; a text or {{{subject!r}: text}} is expected")


def _reason(fields: dict[str, Any]) -> str:
    return next((text for name in ("message", "reason") if isinstance(text := fields.get(name), str)), "")


def _decode(stdout: str) -> Any:
    try:
        return msgspec.json.decode(stdout)
    except (msgspec.DecodeError, ValueError, RecursionError):
        shown = " ".join(stdout.split())[:80]
        raise HookCommandFailed(f"it printed {shown!r}, which is not JSON; print one document, or nothing") from None


def _noun(value: object) -> str:
    names: dict[type, str] = {dict: "object", list: "list", str: "text", bool: "true or false"}
    return names.get(type(value), "number or null")


def _complaint(stderr: str) -> str:
    """The end of a failed command's stderr, where the reason usually is."""
    said = " ".join(stderr.split())
    return f": {said[-_LONGEST_COMPLAINT:]}" if said else ""
