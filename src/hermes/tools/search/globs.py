"""Shell-style file patterns and ``.gitignore`` files, as regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_WILDCARDS = frozenset("*?[{")


def path_filter(glob: str) -> Callable[[str], bool]:
    """A test for relative paths. A pattern with a slash is about the whole path, one without about the name."""
    matches = re.compile(translate(glob.removeprefix("./").removeprefix("/")), re.DOTALL).fullmatch
    if "/" in glob:
        return lambda path: matches(path) is not None
    return lambda path: matches(path.rpartition("/")[2]) is not None


def name_filter(pattern: str) -> Callable[[str], bool]:
    """Like ``path_filter``, but a pattern without wildcards finds names that contain it, in any case."""
    if _WILDCARDS.isdisjoint(pattern) and "/" not in pattern:
        wanted = pattern.lower()
        return lambda path: wanted in path.rpartition("/")[2].lower()
    return path_filter(pattern)


def translate(glob: str) -> str:
    """The regular expression for a pattern with ``*  **  ?  [a-z]  {a,b}`` and backslash escapes."""
    parts: list[str] = []
    at = depth = 0
    while at < len(glob):
        piece, at, depth = _translate_one(glob, at, depth)
        parts.append(piece)
    return "".join(parts) + ")" * depth


def _translate_one(glob: str, at: int, depth: int) -> tuple[str, int, int]:
    """One element of the pattern: its regular expression, the next position, the open braces."""
    here = glob[at]
    if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
        return "(?:.*/)?", at + 3, depth
    if glob.startswith("**", at):
        return ".*", at + 2, depth
    if here == "[" and (end := glob.find("]", at + 2)) > 0:
        return _translate_set(glob[at + 1 : end]), end + 1, depth
    if here == "{" and "}" in glob[at:]:
        return "(?:", at + 1, depth + 1
    if depth and here in "},":
        return (")", at + 1, depth - 1) if here == "}" else ("|", at + 1, depth)
    if here == "\\" and at + 1 < len(glob):
        return re.escape(glob[at + 1]), at + 2, depth
    return {"*": "[^/]*", "?": "[^/]"}.get(here) or re.escape(here), at + 1, depth


def _translate_set(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    members = inside[1:] if negated else inside
    parts: list[str] = []
    at = 0
    while at < len(members):
        is_range = members[at + 1 : at + 2] == "-" and at + 2 < len(members)
        first, last = members[at], members[at + 2 if is_range else at]
        if last < first:  # a reversed range: the brackets are literal
            return re.escape(f"[{inside}]")
        parts.append(f"{re.escape(first)}-{re.escape(last)}")
        at += 3 if is_range else 1
    return f"[{'^/' if negated else ''}{''.join(parts)}]" if parts else re.escape(f"[{inside}]")


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one ``.gitignore``; later rules win over earlier ones."""

    #: Its directory seen from the root of the walk, with a slash at the end; "" when it is there or above.
    base: str
    #: The root of the walk seen from its directory, with a slash at the end; "" when it is there or below.
    above: str
    #: Matches when any rule does: most paths fail this one test.
    any_rule: re.Pattern[str]
    #: Newest first: the expression, whether it is about directories only, whether it ignores or takes back.
    rules: tuple[tuple[re.Pattern[str], bool, bool], ...]

    def verdict(self, path: str, is_directory: bool) -> bool | None:
        """True: ignored. False: explicitly not ignored. None: no rule matches."""
        inside = self.above + path[len(self.base) :]
        if not self.any_rule.fullmatch(inside):
            return None
        for expression, directories_only, ignores in self.rules:
            if (is_directory or not directories_only) and expression.fullmatch(inside):
                return ignores
        return None


def is_ignored(path: str, is_directory: bool, files: Sequence[IgnoreFile]) -> bool:
    """Whether one of the files ignores a path; the last of them, the innermost, comes first."""
    verdicts = (file.verdict(path, is_directory) for file in reversed(files))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def read_gitignore(directory: str, base: str = "", above: str = "") -> IgnoreFile | None:
    """The ``.gitignore`` of a directory; None when it has none, or one without rules."""
    try:
        with open(f"{directory}/.gitignore", encoding="utf-8", errors="replace") as file:
            return parse_gitignore(file.read(1 << 20), base, above)
    except OSError:
        return None


def parse_gitignore(text: str, base: str = "", above: str = "") -> IgnoreFile | None:
    """Read a ``.gitignore``; None when it has no rules. ``base`` and ``above`` say where it is."""
    rules: list[tuple[re.Pattern[str], bool, bool]] = []
    for line in text.splitlines():
        line = line if line.endswith("\\ ") else line.rstrip()
        if not line or line.startswith("#"):
            continue
        ignores = not line.startswith("!")
        pattern = line if ignores else line[1:]
        directories_only = pattern.endswith("/")
        pattern = pattern.rstrip("/")
        anchored = "/" in pattern
        expression = ("" if anchored else "(?:.*/)?") + translate(pattern.lstrip("/"))
        rules.append((re.compile(expression, re.DOTALL), directories_only, ignores))
    if not rules:
        return None
    combined = re.compile("|".join(f"(?:{rule.pattern})" for rule, _, _ in rules), re.DOTALL)
    return IgnoreFile(base, above, combined, tuple(reversed(rules)))
