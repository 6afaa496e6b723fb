"""What the end of a hook command means for the hook it ran for.

A command answers with one JSON document on stdout, or with nothing. Exit code 2 is a refusal with its reason on
stderr, where the hook can refuse; any other code but 0 is a failure of the command.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.contract.hooks import HOOKS
from hermes.errors import PluginError
from hermes.plugins.shell_hooks.payload import SUBJECTS
from hermes.plugins.shell_hooks.process import MAX_STDOUT, Finished

REFUSED = 2

_LONGEST_REASON = 4_000
_LONGEST_COMPLAINT = 400

#: Answers that let things take their course.
_NO_OBJECTION = ("allow", "approve")


class HookCommandFailed(PluginError):
    """A hook command did not do its work."""


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
    if event == "pre_llm_call":
        return _context(fields)
    if event == "pre_tool_call":
        return _decision(fields)
    if event == "pre_verify":
        return _nudge(fields)
    return fields


def _decision(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Block the call, send it to a person, or neither."""
    action, decision = fields.get("action"), fields.get("decision")
    if action == "block" or decision == "block":
        return _refusal("pre_tool_call", _words(fields))
    if action == "approve":
        told = {name: fields[name] for name in ("message", "rule_key") if isinstance(fields.get(name), str)}
        return {"action": "approve", **told}
    if action not in (None, "allow"):
        raise HookCommandFailed(f"its action is {action!r}; it may be block, approve (ask a person) or allow")
    if decision not in (None, *_NO_OBJECTION):
        raise HookCommandFailed(f"its decision is {decision!r}; it may be block or allow")
    return None


def _nudge(fields: dict[str, Any]) -> dict[str, Any] | None:
    if fields.get("action") == "continue" or fields.get("decision") == "block":
        return _refusal("pre_verify", _words(fields))
    return None


def _refusal(event: str, words: str) -> dict[str, Any]:
    words = words.strip()[:_LONGEST_REASON]
    if event == "pre_verify":
        return {"action": "continue", "message": words or "A check of your work asks you to go on, without saying why."}
    return {"action": "block", "message": words or "Blocked by a hook command, which gave no reason."}


def _context(fields: dict[str, Any]) -> dict[str, Any] | None:
    context = fields.get("context")
    if context is None:
        return None
    if not isinstance(context, str):
        raise HookCommandFailed(f"its context is a JSON {_noun(context)}; a text is expected")
    return {"context": context}


def _replacement(subject: str, document: Any) -> str | None:
    """The text that takes the place of the subject: the document itself, or its field of the same name."""
    text = cast("dict[str, Any]", document).get(subject) if isinstance(document, dict) else document
    if text is None or isinstance(text, str):
        return text
    raise HookCommandFailed(f"it printed a JSON {_noun(text)}; a text or {{{subject!r}: text}} is expected")


def _words(fields: dict[str, Any]) -> str:
    return next((words for name in ("message", "reason") if isinstance(words := fields.get(name), str)), "")


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
    """The end of what a failed command said: the last line is the one that tells."""
    said = " ".join(stderr.split())
    return f": {said[-_LONGEST_COMPLAINT:]}" if said else ""
