"""The agent side of the protocol: its methods, and the sessions that the editor has open."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from hermes.base.version import __version__
from hermes.surfaces.acp.wire import (
    INVALID_PARAMS,
    LATER,
    NOT_FOUND,
    EditorConnection,
    Params,
    RpcError,
    RpcReply,
    fields_of,
)

if TYPE_CHECKING:
    from hermes.agent.session import Session
    from hermes.host import Host
    from hermes.surfaces.acp.session import EditorSession

# The host is built for the first session: an editor that only looks around gets its answer at once.

log = logging.getLogger("hermes.acp")

PROTOCOL_VERSION = 1
_LISTED = 100


class AcpServer:
    """Serves one editor. ``make_host`` is called once, with the folder of the first session."""

    def __init__(self, source: BinaryIO, sink: BinaryIO, make_host: Callable[[Path], Host]) -> None:
        self._make_host = make_host
        self._host: Host | None = None
        self._sessions: dict[str, EditorSession] = {}
        self._can_fill_forms = False
        self._connection = EditorConnection(
            source,
            sink,
            {
                "initialize": self._initialize,
                "authenticate": lambda _params, _reply: {},
                "session/new": self._new,
                "session/load": self._load,
                "session/resume": self._resume,
                "session/fork": self._fork,
                "session/list": self._list,
                "session/close": self._close,
                "session/set_mode": self._set_mode,
                "session/prompt": self._prompt,
                "session/cancel": self._cancel,
            },
        )

    def run(self) -> None:
        """Serve until the editor closes its end; then stop what runs."""
        try:
            self._connection.run()
        finally:
            for session in self._sessions.values():
                session.close()
            for session in self._sessions.values():
                session.join()
            if self._host is not None:
                self._host.close()

    # -- methods ------------------------------------------------------------------------------------------------

    def _initialize(self, params: Params, _reply: RpcReply) -> Any:
        forms = fields_of(fields_of(params.get("clientCapabilities")).get("elicitation"))
        self._can_fill_forms = "form" in forms
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {"list": {}, "fork": {}, "resume": {}, "close": {}},
            },
            "agentInfo": {"name": "hermes", "title": "Hermes", "version": __version__},
            "authMethods": [],
        }

    def _new(self, params: Params, reply: RpcReply) -> Any:
        cwd = _folder(params)
        host = self._ready_host(cwd, params)
        return self._answered(self._open(host.new_session(cwd=cwd)), reply)

    def _load(self, params: Params, reply: RpcReply) -> Any:
        editor = self._open(self._recorded(params))
        editor.replay()
        return self._answered(editor, reply, with_id=False)

    def _resume(self, params: Params, reply: RpcReply) -> Any:
        return self._answered(self._open(self._recorded(params)), reply, with_id=False)

    def _fork(self, params: Params, reply: RpcReply) -> Any:
        source = self._recorded(params)
        host = self._ready_host(source.cwd, params)
        return self._answered(self._open(host.branch_session(source)), reply)

    def _list(self, params: Params, _reply: RpcReply) -> Any:
        wanted = params.get("cwd")
        host = self._ready_host(Path(wanted) if isinstance(wanted, str) and Path(wanted).is_dir() else Path.cwd(), {})
        rows = [row for row in host.sessions.list(limit=_LISTED, principal="") if wanted in (None, row.cwd)]
        sessions = [
            {
                "sessionId": row.id,
                "cwd": row.cwd,
                "title": host.redactor.redact(row.title or ""),
                "updatedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.updated_at)),
            }
            for row in rows
        ]
        return {"sessions": sessions}

    def _close(self, params: Params, _reply: RpcReply) -> Any:
        session = self._sessions.pop(self._session_of(params).session.id)
        session.close()
        session.join()
        session.session.close("session_boundary")
        return {}

    def _set_mode(self, params: Params, _reply: RpcReply) -> Any:
        from hermes.base.config.schema.modes import MODES, PermissionMode
        from hermes.base.errors import did_you_mean

        editor, mode = self._session_of(params), params.get("modeId")
        known: PermissionMode | None = next((name for name in MODES if name == mode), None)
        if known is None:
            raise RpcError(INVALID_PARAMS, f"there is no mode {mode!r}{did_you_mean(str(mode), MODES)}")
        assert self._host is not None
        self._host.approvals.modes.set(editor.session.id, known)
        editor.update({"sessionUpdate": "current_mode_update", "currentModeId": known})
        return {}

    def _prompt(self, params: Params, reply: RpcReply) -> Any:
        self._session_of(params).prompt(params.get("prompt"), reply)
        return LATER

    def _cancel(self, params: Params, _reply: RpcReply) -> Any:
        editor = self._sessions.get(str(params.get("sessionId")))
        if editor is not None:
            editor.cancel("cancelled in the editor")
        return None

    # -- sessions -----------------------------------------------------------------------------------------------

    def _ready_host(self, cwd: Path, params: Params) -> Host:
        if self._host is None:
            self._host = self._make_host(cwd)
        servers = params.get("mcpServers")
        if isinstance(servers, list) and servers:
            for problem in self._host.mcp_sources.add(_mcp_servers(cast("list[Any]", servers))):
                log.warning("%s", problem)
        return self._host

    def _recorded(self, params: Params) -> Session:
        session_id, cwd = str(params.get("sessionId") or ""), _folder(params)
        host = self._ready_host(cwd, params)
        known = self._sessions.get(session_id)
        if known is not None:
            return known.session
        row = host.sessions.get(session_id)
        if row.id != session_id:  # the beginning of an id is for people
            raise RpcError(NOT_FOUND, f"there is no session {session_id!r}")
        if row.principal:
            # It would work in the owner's folder for someone else.
            raise RpcError(NOT_FOUND, f"session {row.id} is one of {row.principal}; begin a session of your own")
        return host.resume_session(row.id, cwd=cwd)

    def _open(self, session: Session) -> EditorSession:
        from hermes.surfaces.acp.session import EditorSession

        known = self._sessions.get(session.id)
        if known is None:
            assert self._host is not None
            known = EditorSession(self._host, session, self._connection, can_fill_forms=self._can_fill_forms)
            self._sessions[session.id] = known
        return known

    def _answered(self, editor: EditorSession, reply: RpcReply, *, with_id: bool = True) -> Any:
        """Answer with the modes, then report the commands: an editor takes updates only for sessions that it knows."""
        from hermes.base.config.schema.modes import MODES
        from hermes.surfaces.commands.table import all_commands

        assert self._host is not None
        modes = [{"id": name, "name": name, "description": traits.summary} for name, traits in MODES.items()]
        current = self._host.approvals.modes.of(editor.session.id)
        result: dict[str, Any] = {"modes": {"currentModeId": current, "availableModes": modes}}
        reply.send({"sessionId": editor.session.id, **result} if with_id else result)
        commands = [
            {
                "name": command.name,
                "description": command.summary,
                **({"input": {"hint": command.args_hint}} if command.args_hint else {}),
            }
            for command in all_commands(self._host)
            if not command.at_prompt
        ]
        editor.update({"sessionUpdate": "available_commands_update", "availableCommands": commands})
        return LATER

    def _session_of(self, params: Params) -> EditorSession:
        session_id = params.get("sessionId")
        editor = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if editor is None:
            raise RpcError(NOT_FOUND, f"session {session_id!r} is not open; use session/new or session/load")
        return editor


def _folder(params: Params) -> Path:
    cwd = params.get("cwd")
    try:
        is_folder = isinstance(cwd, str) and Path(cwd).is_absolute() and Path(cwd).is_dir()
    except OSError:  # too long, for example
        is_folder = False
    if not isinstance(cwd, str) or not is_folder:
        raise RpcError(INVALID_PARAMS, f"cwd is {cwd!r}; it must be the absolute path of a folder that exists")
    return Path(cwd)


def _mcp_servers(servers: list[Any]) -> dict[str, Any]:
    """The editor's MCP servers as entries of the configuration."""
    from hermes.base.config.schema.mcp import McpServerConfig

    entries: dict[str, Any] = {}
    for server in servers:
        if not isinstance(server, dict) or not isinstance(name := cast("Params", server).get("name"), str):
            raise RpcError(INVALID_PARAMS, "an entry of mcpServers has no name")
        given = cast("Params", server)
        if given.get("url"):
            transport = "sse" if given.get("type") == "sse" else "http"
            headers = _named_values(given.get("headers"), "headers")
            entries[name] = McpServerConfig(url=str(given["url"]), headers=headers, transport=transport)
        else:
            arguments = [str(argument) for argument in _list(given.get("args"), "args")]
            env = _named_values(given.get("env"), "env")
            entries[name] = McpServerConfig(command=str(given.get("command") or ""), args=arguments, env=env)
    return entries


def _list(value: object, name: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise RpcError(INVALID_PARAMS, f"{name} of an entry of mcpServers is not a list")
    return cast("list[Any]", value or [])


def _named_values(pairs: object, name: str) -> dict[str, str]:
    found = [fields_of(pair) for pair in _list(pairs, name)]
    return {str(pair["name"]): str(pair.get("value") or "") for pair in found if "name" in pair}
