"""Candidate tool calls of the embedded model, and the grammar that its server enforces.

So small a model chooses well and invents badly: it may only write text or one of the candidate calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec


class CandidateCall(NamedTuple):
    """One call that the model may choose."""

    tool: str
    value: str


#: The tools that the model is shown, with the one argument of each.
_READ_TOOL = "read_file"
_RUN_TOOL = "terminal"
ARGUMENTS = {_READ_TOOL: "path", _RUN_TOOL: "command"}

#: Commands that only look, and what a message says that asks for such a look.
LOOKS: dict[str, str] = {
    "ls": r"(?:which|what|list|show|see)\b.*\bfiles|list\b.*\b(?:folder|directory)|in (?:this|my) (?:folder|directory)",
    "pwd": r"(?:current|working|this) directory|which folder|where am i",
    "date": r"(?:today|current|the)\S* date|current time|what time|what day is",
    "whoami": r"who am i|my user ?name|which user",
    "uname -a": r"operating system|kernel|(?:which|what) (?:system|machine)",
    "df -h": r"disk|free space|storage",
    "free -h": r"(?:much|free) (?:memory|ram)\b",
    "ps aux": r"running process|(?:which|what|list|show)\b.*\bprocesses",
    "git status": r"git status|uncommitted|(?:files|what) (?:have |has )?changed",
    "git log -5": r"commits\b|git (?:log|history)",
    "python3 --version": r"python version|version of python",
}

_QUOTED = re.compile(r"`([^`\n]{1,120})`|\"([^\"\n]{1,120})\"|“([^”\n]{1,120})”|(?<!\w)'([^'\n]{1,120})'(?!\w)")
#: An order, unlike the "run" of "I run every day".
_RUN = re.compile(
    r"(?:^|[.!?:\n]\s*|\b(?:please|you|and|then|now|to)\s+)(?:run|execute)\b(?:\s+the)?(?:\s+command)?\s*"
    r"(?P<command>[^`\"'“\s][^\n?`\"“]{0,119})?",
    re.IGNORECASE,
)
_COURTESY = re.compile(r"[\s.!]*(?:please|for me)?[\s.!]*$", re.IGNORECASE)
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w.-].*"
    r"|(?:[\w.-]+/)*(?:[\w -]{2,}\.[A-Za-z]\w{0,9}|[\w-]+\.[A-Za-z]\w{1,9}|\.\w{2,})"
)
_KNOWN_FILES = frozenset({"README", "LICENSE", "Makefile", "Dockerfile", "CHANGELOG", "NOTICE", "AUTHORS"})
#: Only the beginning of a message is searched: a long one is text to talk about, not an order.
_SEARCHED = 2_000
_MOST = 8


def candidate_calls(asked: str, tools: Collection[str]) -> list[CandidateCall]:
    """The calls that make sense for a message: what it names, or else a harmless look at what it speaks of.

    Nothing here is made up: a path or a command is the user's own words, or one of the commands that only look.
    """
    asked = asked[:_SEARCHED]
    quotes = ["".join(match) for match in _QUOTED.findall(asked)]
    order = _RUN.search(asked)
    commands: list[str] = []
    if order is not None:
        commands = quotes or [_COURTESY.sub("", order["command"] or "")]
    paths = [] if commands else _paths(asked, quotes)
    if not (commands or paths):
        commands = [command for command, words in LOOKS.items() if re.search(rf"\b(?:{words})", asked, re.IGNORECASE)]
    found = [CandidateCall(_RUN_TOOL, command) for command in commands] + [
        CandidateCall(_READ_TOOL, path) for path in paths
    ]
    usable = [one for one in dict.fromkeys(found) if one.tool in tools and one.value and one.value.isprintable()]
    return usable[:_MOST]


def _paths(text: str, quotes: list[str]) -> list[str]:
    words = [word.lstrip("([").rstrip(")],;:!?.") for word in _QUOTED.sub(" ", text).split()]
    return [name for name in (*quotes, *words) if _PATH.fullmatch(name) or name in _KNOWN_FILES]


#: Text never has the character that a call begins with, so the first character decides which of the two it is.
_TEXT = "text ::= [^<]+"


def free_answer(calls: Sequence[CandidateCall]) -> str:
    """Plain text, or one of these calls."""
    if not calls:
        return f"root ::= text\n{_TEXT}"
    return f"root ::= call | text\n{_calls(calls)}\n{_TEXT}"


def quoting_answer(quote: str, calls: Sequence[CandidateCall]) -> str:
    """Exactly this text, or one of these calls."""
    if not calls:
        return f"root ::= {_literal(quote)}"
    return f"root ::= call | quote\nquote ::= {_literal(quote)}\n{_calls(calls)}"


def call_text(call: CandidateCall) -> str:
    """A call as the model writes it."""
    value = msgspec.json.encode(call.value).decode()
    body = f'{{"name": "{call.tool}", "arguments": {{"{ARGUMENTS[call.tool]}": {value}}}}}'
    return f"<tool_call>\n{body}\n</tool_call>"


def _calls(calls: Sequence[CandidateCall]) -> str:
    return f"call ::= {' | '.join(_literal(call_text(call)) for call in calls)}"


def _literal(text: str) -> str:
    """A text as a string of the grammar. Control characters, which a grammar cannot have, are left out."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + "".join(character for character in escaped if character.isprintable()) + '"'
