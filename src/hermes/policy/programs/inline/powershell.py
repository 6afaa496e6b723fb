"""PowerShell and cmd: detects deletion, execution of downloads, and encoded commands."""

from __future__ import annotations

import base64
import re
from binascii import Error as BadEncoding
from typing import TYPE_CHECKING

from hermes.policy.call import Call
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

_RULES = tuple(
    (key, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for key, pattern in {
        "delete-system-tree": (
            r"\b(?:remove-item|ri|rm|del|erase|rd|rmdir)\b(?=[^|;&\n]*(?:\s-r\w*|\s/s\b))[^|;&\n]*?[\s'\"](?:[a-z]:(?:[\\/]\*?|[\\/](?:windows|users)[\\/]?\*?)?"
            r"|\$env:(?:systemdrive|systemroot|userprofile|windir)[\\/]?\*?|%(?:systemdrive|systemroot|userprofile|windir)%[\\/]?\*?|[\\/]|~)(?=['\"\s]|$)"
        ),
        "recursive-delete": (
            r"\b(?:remove-item|ri|rm|del|erase|rd|rmdir)\b[^|;&\n]*(?:\s-r(?:ec\w*)?\b|\s/s\b)|\.Delete\([^)]*\$?true"
        ),
        "format-disk": (
            r"\b(?:format-volume|clear-disk|initialize-disk|remove-partition)\b|(?:^|[;&|]\s*)format(?:\.com)?\s+[a-z]:"
        ),
        "power-off": r"\b(?:stop-computer|restart-computer)\b|(?:^|[;&|]\s*)shutdown(?:\.exe)?\s+[/-][srph]\b",
        "remote-script": (
            r"(?:\b(?:iex|invoke-expression)\b.*(?:\b(?:iwr|irm|curl|wget|invoke-webrequest|invoke-restmethod)\b|downloadstring))"
            r"|(?:(?:\b(?:iwr|irm|curl|wget|invoke-webrequest|invoke-restmethod)\b|downloadstring).*\|\s*(?:iex|invoke-expression)\b)"
        ),
        "stop-service": (
            r"\b(?:stop-service|restart-service|set-service|remove-service)\b|\bsc(?:\.exe)?\s+(?:stop|delete|config)\b|\bnet\s+stop\b"
        ),
        "kill-many": r"\bstop-process\b[^|;\n]*-force|\btaskkill\b[^|;\n]*/f",
    }.items()
)
#: Longest text that is searched: the patterns take more than linear time.
_LONGEST = 2_000
_ENCODED = re.compile(r"[-/](?:e|ec|en\w*)$", re.IGNORECASE)
PROGRAMS = names(
    "powershell pwsh cmd remove-item ri del erase rd rmdir format-volume clear-disk stop-computer restart-computer "
    "stop-service restart-service iex invoke-expression iwr irm invoke-webrequest stop-process taskkill sc net format"
)


def windows(shell: Shell, call: Call) -> None:
    """Report what a Windows command line would do; its own language is matched, not parsed."""
    if call.program in ("powershell", "pwsh"):
        for at, word in enumerate(call.args[:-1]):
            if _ENCODED.fullmatch(word):
                shell.report("encoded-powershell", call.source)
                _judge(shell, _decoded(call.args[at + 1]), call.source)
    _judge(shell, " ".join([call.program, *call.args, call.stdin.text or ""]), call.source)


def _judge(shell: Shell, text: str, source: str) -> None:
    shell.budget.spend(min(len(text), _LONGEST) * 10)
    if len(text) > _LONGEST:
        shell.report("unreadable", source)
        text = text[:_LONGEST]
    for key, pattern in _RULES:
        if pattern.search(text):
            shell.report(key, source)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-16-le", "replace")
    except (ValueError, BadEncoding):
        return ""
