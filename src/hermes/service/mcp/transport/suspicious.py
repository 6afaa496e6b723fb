"""Refusal of server commands that have the shape of an attack: a shell that downloads, sends secrets or settles in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from hermes.service.mcp.errors import McpError

#: What no MCP server needs to be started. The command may still be put into a script that its user has read.
_REFUSED = frozenset(
    (
        "remote-script decode-then-execute encoded-powershell network-shell made-executable send-credentials "
        "read-own-secrets hidden-text write-autorun run-later load-code write-shell-startup write-ssh "
        "write-system-config write-credentials write-hermes-config wipe-logs weaken-system set-user-id"
    ).split()
)
#: A command without any of these runs one program with plain arguments.
_SCRIPT = re.compile(r"[\s|&;<>()$`\\{}\x00]")
#: Programs that open a shell to the network or run something later, with plain arguments too.
_JUDGED = frozenset(
    {"nc", "ncat", "netcat", "socat", "crontab", "at", "batch", "systemctl", "systemd-run", "launchctl"}
)


#: Inline code of an interpreter that gets something from the network and runs something: code that is downloaded.
_GETS = re.compile(
    r"url(?:lib|open|retrieve)|\brequests\b|httpx|aiohttp|http\.client|\bfetch\s*\(|axios|https?\.get|Net::HTTP|"
    r"open-uri|LWP|file_get_contents|\bcurl\b|\bwget\b|\bsocket\b"
)
_RUNS = re.compile(
    r"\bexec|\beval\b|\bcompile\s*\(|subprocess|\bsystem\b|popen|spawn|runpy|importlib|child_process|Function\s*\(|`|"
    r"marshal|pickle|ctypes|chmod"
)


def check_command(server: str, command: Sequence[str], *, cwd: Path, hermes_home: Path) -> None:
    """Raise ``McpError`` for a command that is refused. Nothing is run, and no file is read."""
    if not command or not _is_worth_judging(command):
        return
    from hermes.policy.judge import judge_command  # few servers are started by a script

    verdict = judge_command(shlex.join(command), cwd=cwd, hermes_home=hermes_home)
    found = next((finding for finding in verdict.findings if finding.hardline or finding.rule in _REFUSED), None)
    what = "" if found is None else f"{found.description} ({found.rule})"
    if not what and any(finding.rule == "inline-code" for finding in verdict.findings):
        code = " ".join(command)
        if _GETS.search(code) and _RUNS.search(code):
            what = "downloads code and runs it (inline-code)"
    if what:
        raise McpError(
            f"mcp_servers.{server}: the command {what}, which no MCP server needs; it is "
            "not started. If you know what it does, put it into a script and name that as the command"
        )


def _is_worth_judging(command: Sequence[str]) -> bool:
    return Path(command[0]).name in _JUDGED or any(_SCRIPT.search(text) for text in command)
