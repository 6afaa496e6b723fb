"""Inline code in other languages: finds literal shell commands and deletions in it. Input is length-bounded (ReDoS)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes.policy.shell.words import escapes

_LITERAL = re.compile(
    r"\"\"\"(.*?)\"\"\"|'''(.*?)'''|\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`"
    r"|\b(?:qx|qw|q|qq|%x|%w)\s*[({\[/|!](.*?)[)}\]/|!]|%[xw][({\[](.*?)[)}\]]",
    re.DOTALL,
)
_RUNS = re.compile(
    r"\b(?:system|popen[234]?|spawn\w*|exec\w*|subprocess|run|call|check_call|check_output|getoutput|getstatusoutput"
    r"|shell_exec|passthru|proc_open|pcntl_exec|child_process|os\.execute|io\.popen|Open3|qx|shell|do shell script"
    r"|ShellExecute|pty|Process|Command)\b"
    r"|%x|`|\|\s*getline|\bprint[^;\n]*\|\s*[\"']"
)
_DELETES = re.compile(
    r"\b(?:rmtree|removedirs|remove_dir_all|rm_rf?|rm_r|rmSync|rmdirSync|remove_tree|rimraf|RemoveAll|deleteDirectory|delete_tree|rmdir_r"
    r"|rm|unlinkTree|remove_all|emptyDirSync)\b"
)
_FORKS = re.compile(
    r"fork\s*(?:\(\s*\))?\s*while\s+(?:fork|1|true)|while\s*\(?\s*(?:1|true|fork)\b[^;]{0,12}\)?\s*[:{]?\s*(?:os\.|Process\.)?fork\b"
    r"|loop\s*(?:do|\{)\s*fork|for\s*\(\s*;\s*;\s*\)\s*\{?\s*fork|fork\s*\(?\s*\)?\s*(?:;|\n)\s*redo",
    re.IGNORECASE,
)
_KILLS = re.compile(r"\bkill\w*\s*\(?\s*(?:-1\s*,|[\w.'\":]+\s*,\s*-1\b)")
_OPENS = re.compile(r"\bopen\w*\s*\(\s*['\"](/dev/[^'\"]+)['\"]\s*,\s*['\"](?:[rb+]*[wa+]|>)")
_MOST_LITERALS = 40


@dataclass(frozen=True, slots=True)
class InlineCode:
    """What was found in a piece of code."""

    #: Literals that it may pass to a shell.
    commands: tuple[str, ...] = ()
    #: Paths that it may delete recursively.
    deleted: tuple[str, ...] = ()
    #: Files under ``/dev`` that it opens for writing.
    devices: tuple[str, ...] = ()
    forks: bool = False
    kills_everything: bool = False


def look_into(code: str) -> InlineCode:
    """The literal commands and paths in the code. Best effort: the inline-code rule asks anyway."""
    literals = [_text(match) for match in _LITERAL.finditer(code)][:_MOST_LITERALS]
    commands: list[str] = []
    if literals and _RUNS.search(code):
        commands = [*literals, " ".join(literals), "".join(literals)]
    return InlineCode(
        commands=tuple(dict.fromkeys(command for command in commands if command.strip())),
        deleted=tuple(literals) if _DELETES.search(code) else (),
        devices=tuple(_OPENS.findall(code)),
        forks=_FORKS.search(code) is not None,
        kills_everything=_KILLS.search(code) is not None,
    )


def _text(match: re.Match[str]) -> str:
    return escapes(next((group for group in match.groups() if group is not None), ""))
