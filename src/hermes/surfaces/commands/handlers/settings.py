"""Commands about settings: config, mode, yolo. Also what of the configuration may be shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from hermes.agent.approvals.gate import Approvals
from hermes.agent.session import Session
from hermes.base.config.listing import Setting, list_settings
from hermes.base.config.messages import KeyPath, dotted, suggestion
from hermes.base.config.schema.modes import DEFAULT_MODE, MODES, UNASKED_MODE
from hermes.base.config.secrets import is_unnamed_secret
from hermes.base.errors import ConfigError, HermesError
from hermes.base.sanitize import REDACTED, is_secret_key, redact_text
from hermes.surfaces.commands.conversation import Conversation

_HEADERS = frozenset({"headers", "extra_headers"})


def config(conversation: Conversation, arguments: str) -> str:
    """Show the settings that are not the default, or those under a key."""
    settings = list(list_settings(conversation.host.config))
    if arguments:
        return "\n".join(setting_lines(select(settings, arguments)))
    changed = [setting for setting in settings if not setting.is_default]
    head = f"# {conversation.host.home / 'config.yaml'}, what differs from the defaults"
    return "\n".join([head, *setting_lines(changed)])


def yolo(conversation: Conversation, arguments: str) -> str:
    """Run everything in this session without asking, or ask again. Without an argument, the other way round."""
    modes, session_id = conversation.host.approvals.modes, conversation.session.id
    word = arguments.lower() or ("off" if modes.of(session_id) == UNASKED_MODE else "on")
    if word not in ("on", "off"):
        raise HermesError(f"/yolo takes on or off, not {arguments!r}")
    if word == "on":
        modes.set(session_id, UNASKED_MODE)
        return "Everything runs without asking in this session, except what is never allowed. Back: /yolo off"
    return f"Approvals are on again; the mode is {modes.without_yolo(session_id)}."


def mode(conversation: Conversation, arguments: str) -> str:
    """Show the permission mode of this session, or change it."""
    approvals, session_id = conversation.host.approvals, conversation.session.id
    word = arguments.lower().strip()
    if not word:
        now = approvals.modes.of(session_id)
        return "\n".join(f"{'*' if name == now else ' '} {name:<13} {traits.summary}" for name, traits in MODES.items())
    if word not in MODES:
        raise HermesError(f"/mode takes {', '.join(MODES)}, not {arguments!r}")
    approvals.modes.set(session_id, word)
    return mode_notice(approvals, conversation.session)


def mode_notice(approvals: Approvals, session: Session) -> str:
    """The mode of a session in one line, with what it falls short of."""
    now = approvals.modes.of(session.id)
    text = f"Mode {now}: {MODES[now].summary}."
    if MODES[now].trusts_sandbox and not approvals.is_sandboxed():
        return f"{text} This session has no sandbox, so it behaves as {DEFAULT_MODE}."
    return text


def select(settings: list[Setting], key: str) -> list[Setting]:
    """The setting with that key, or those of the section."""
    if not key:
        return settings
    from hermes.base.config.edit import split_key  # brings a YAML library along that keeps comments

    path = split_key(key)
    chosen = [setting for setting in settings if tuple(map(str, setting.path[: len(path)])) == path]
    if not chosen:
        known = {str(setting.path[len(path) - 1]) for setting in settings if len(setting.path) >= len(path)}
        hint = suggestion(str(path[-1]), path[:-1], sorted(known)) or "see: hermes config show"
        raise ConfigError(f"{key} is not a known setting; {hint}")
    return chosen


def setting_lines(settings: Iterable[Setting]) -> list[str]:
    """Settings as they stand in the file, a line each, secrets masked."""
    return [
        f"{dotted(setting.path)}: {msgspec.json.encode(masked(setting.path, setting.value)).decode()}"
        + ("  # default" if setting.is_default else "")
        for setting in settings
    ]


def masked(path: KeyPath, value: Any) -> Any:
    """The value without its secrets. A setting that is empty shows that it is."""
    if any(is_secret_key(str(part)) for part in path) and value not in ("", None, [], {}):
        return REDACTED
    if isinstance(value, str):
        is_header = not _HEADERS.isdisjoint(map(str, path))
        return REDACTED if is_header and is_unnamed_secret(value) else redact_text(value)
    if isinstance(value, dict):
        items = cast("dict[object, Any]", value).items()
        return {str(name): masked((*path, str(name)), item) for name, item in items}
    if isinstance(value, list):
        return [masked(path, item) for item in cast("list[Any]", value)]
    return value
