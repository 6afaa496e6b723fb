"""Backtest of a policy: what rules or a plugin would have refused or asked about in recorded sessions."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from hermes.agent.pipelines.tool_call import ToolCall
from hermes.agent.pipelines.tool_context import tool_context
from hermes.base.config.schema.modes import DEFAULT_MODE, UNASKED_MODE
from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError
from hermes.base.scope import Scope
from hermes.host import Host, HostOptions
from hermes.journal.store.port import Store
from hermes.models.reply import ToolRequest
from hermes.record.recording import Recording, load_recording
from hermes.record.replay.tools import RecordedTools
from hermes.record.replay.transport import NoNetwork

Verdict = Literal["allowed", "asked", "blocked"]
_LONGEST_SUBJECT = 100


class JudgedCall(msgspec.Struct, frozen=True):
    """A recorded call, what the policy says of it now, and what happened then."""

    session_id: str
    turn: int
    step: str
    tool: str
    subject: str
    verdict: Verdict
    reason: str
    recorded: str


def backtest(store: Store, session_ids: Iterable[str], policy: Path, base: Config) -> list[JudgedCall]:
    """Judge every recorded call by a ``config.yaml`` or by a plugin's folder. No tool runs, and nothing is recorded."""
    with tempfile.TemporaryDirectory(prefix="hermes-backtest-") as folder:
        home = Path(folder)
        config, plugins = _policy(policy, base, home)
        config.approvals.headless = "deny"  # a refusal for want of a person is a question
        config.approvals.reviewer = "user"
        if config.approvals.permission_mode == UNASKED_MODE:
            config.approvals.permission_mode = DEFAULT_MODE
        config.mcp_servers = {}
        judged: list[JudgedCall] = []
        with Host(home, config, HostOptions(plugins=plugins, use_enabled_plugins=False), cwd=home, env={}) as host:
            host.models.driver.http = NoNetwork()
            broken = [plugin for plugin in host.plugins if plugin.status == "failed"]
            if broken:
                raise HermesError(f"{policy}: the plugin could not be loaded: {broken[0].error}")
            for session_id in session_ids:
                recording = load_recording(store, session_id)
                RecordedTools(recording).install(host.tools)
                judged += (call for one in recording.family() for call in _judge_session(host, one))
        return judged


def _policy(path: Path, base: Config, home: Path) -> tuple[Config, Sequence[str]]:
    """The settings, and the plugins to load for them."""
    config = msgspec.convert(msgspec.to_builtins(base), Config)
    if path.is_dir() and (path / "plugin.yaml").is_file():
        shutil.copytree(path, home / "plugins" / path.name)
        return config, [path.name]
    if not path.is_file():
        raise HermesError(f"{path}: give a config.yaml with rules, or the folder of a plugin")
    from hermes.base.config.load import load_text

    return load_text(path.read_text("utf-8"), path, {}).config, []


def _judge_session(host: Host, recording: Recording) -> Iterable[JudgedCall]:
    for turn in recording.turns:
        if turn.undone:
            continue
        for key, recorded in turn.tool_calls().items():
            scope = Scope(
                session_id=recording.id,
                turn_id=turn.id,
                task_id=turn.task_id,
                platform=recording.platform,
                principal=recording.principal,
                tool_call_id=recorded.id,
            )
            request = ToolRequest(recorded.id, recorded.name, msgspec.json.encode(recorded.args).decode())
            context = tool_context(host.runtime, scope, Path(recording.cwd))
            call = ToolCall(host.runtime, request, scope, host.tools.get(recorded.name), context)
            outcome = call.prepare()
            verdict: Verdict = "allowed"
            if outcome is not None and outcome.status == "blocked":
                verdict = "asked" if outcome.error_type == "headless_denied" else "blocked"
            reason = outcome.error_message or "" if outcome is not None and verdict != "allowed" else ""
            yield JudgedCall(
                recording.id,
                turn.number,
                key,
                recorded.name,
                _subject(recorded.args),
                verdict,
                reason,
                recorded=recorded.status,
            )


def _subject(args: dict[str, object]) -> str:
    """The part of a call that people look at."""
    named = next((args[name] for name in ("command", "path", "url", "query") if name in args), None)
    text = str(named) if named is not None else msgspec.json.encode(args).decode()
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_SUBJECT else f"{text[: _LONGEST_SUBJECT - 1]}…"
