"""Preprocessor: rewrites command text so that the parser reads it correctly, in one pass over quotes and nesting.

The grammar at hand has weak spots: words continued on the next line, escaped blanks, a hash inside a word, backquotes,
here-documents.
Each has another way to write it that means the same and is read reliably.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from hermes.policy.budget import StepBudget
from hermes.policy.shell.marks import INLINE

_WEAK_SPOT = re.compile(r"`|<<|#|esac|\(\(|(?:^|[\s;&|()])\\|\\[\n \t]")
_IN_COMMAND = re.compile(
    r"\\\n|\\.|\$?'|\$?\"|`|\$?\(\(|\$\(|\$\{|<<<[ \t]*|<<-?|[()#\n]|(?<![\w./$-])(?:case(?=\s)|esac(?!\w))", re.DOTALL
)
_IN_DOUBLE = re.compile(r"\\\n|\\.|\"|`|\$\(\(|\$\(|\$\{", re.DOTALL)
_IN_BRACES = re.compile(r"\\\n|\\.|'|\"|`|\$\(|\$\{|\}", re.DOTALL)
_ANSI_C = re.compile(r"(?:[^'\\]|\\.)*'?", re.DOTALL)
_DELIMITER = re.compile(r"[ \t]*((?:\\.|'[^']*'|\"[^\"]*\"|[^\s;&|<>()'\"\\`])+)")
_COMMAND_START = re.compile(r"(?:^|[;&|()\n{!]|\b(?:then|do|else|elif|if|while|until|time))[ \t]*$")
_INNER_ESCAPE = re.compile(r"\\([`\\$])")
_QUOTED_INNER_ESCAPE = re.compile(r"\\([`\\$\"])")


@dataclass(slots=True)
class Prepared:
    """The text as the parser should see it, and backquoted commands that are broken in themselves.

    A shell reads what is between backquotes on its own: an open quote in it does not reach beyond them. Anywhere else
    it would, so such a command is taken out.
    """

    text: str
    broken: list[str] = field(default_factory=list[str])


def prepare(text: str, is_whole: Callable[[str], bool], budget: StepBudget) -> Prepared:
    """Rewrite a text where the parser is weak. ``is_whole`` says whether a text is a script without errors."""
    return _Rewriter(text, is_whole, budget).prepared() if _WEAK_SPOT.search(text) else Prepared(text)


@dataclass(slots=True)
class _HereDocument:
    """A here-document whose body has not been reached yet."""

    position: int
    delimiter: str
    verbatim: bool
    tabs: bool


class _Rewriter:
    """Copies a text from front to back."""

    def __init__(self, text: str, is_whole: Callable[[str], bool], budget: StepBudget) -> None:
        self._text = text
        self._budget = budget
        self._is_whole = is_whole
        self._at = 0
        self._out: list[str] = []
        #: Output length at the end of a substitution: its parenthesis does not end the surrounding word.
        self._glued = 0
        self._broken: list[str] = []
        self._documents: list[_HereDocument] = []

    def prepared(self) -> Prepared:
        """The rewritten text."""
        self._command(nested=False)
        self._bodies()
        return Prepared("".join(self._out), self._broken)

    def _next(self, pattern: re.Pattern[str]) -> str:
        """Copy up to the next special character and return it; empty at the end."""
        self._budget.spend(6)
        match = pattern.search(self._text, self._at)
        if match is None:
            self._out.append(self._text[self._at :])
            self._at = len(self._text)
            return ""
        self._out.append(self._text[self._at : match.start()])
        self._at = match.end()
        return match.group()

    # Commands

    def _command(self, *, nested: bool) -> None:
        """Commands, up to the closing parenthesis when they are nested in one."""
        cases = 0
        while token := self._next(_IN_COMMAND):
            if token == ")":
                self._out.append(token)
                if nested and not cases:
                    return
            elif token == "case":
                cases += self._starts_command()
                self._out.append(token)
            elif token == "esac":
                closes = self._starts_command()
                cases -= cases > 0 and closes
                self._out.append(token if closes else "'esac'")
            elif token == "#":
                self._hash()
            elif token == "\n":
                self._out.append(token)
                self._bodies()
            elif token.startswith("<<<"):
                self._out.append("< " + INLINE)
            elif token in ("<<", "<<-"):
                self._document(token)
            elif token in ("((", "$(("):
                self._arithmetic(token)
            elif token == "(":
                process = self._out[-1].endswith(("<", ">"))
                self._out.append(token)
                self._command(nested=True)
                self._glued = len(self._out) if process else self._glued
            elif token in ("'", "$'"):
                self._single(token)
            else:
                self._common(token, double=False)

    def _common(self, token: str, *, double: bool) -> None:
        """Handle what is the same inside and outside of quotes."""
        if token == "\\\n":
            return
        if token[0] == "\\" and not double:
            self._out.append(f"'{token[1:]}'" if token != "\\'" else '"\'"')
            return
        if token == "`":
            self._backquotes(double=double)
            return
        self._out.append(token)
        if token in ('"', '$"'):
            self._double()
        elif token == "$(":
            self._command(nested=True)
            self._glued = len(self._out)
        elif token == "${":
            self._braces(double=double)

    def _starts_command(self) -> bool:
        return _COMMAND_START.search("".join(self._out[-3:])[-24:]) is not None

    def _is_inside_word(self) -> bool:
        """Whether the next character continues a word."""
        before = "" if self._glued else "\n"
        for at in range(len(self._out) - 1, self._glued - 1, -1):
            if self._out[at]:
                before = self._out[at][-1]
                break
        return before not in (" ", "\t", "\n", ";", "&", "|", "(", ")", "<", ">")

    def _hash(self) -> None:
        if self._is_inside_word():
            self._out.append("#" if self._out[-1].endswith("$") else "\\#")
            return
        # Comments are dropped: the parser reads some of them as words.
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    # Quotes and expansions

    def _single(self, token: str) -> None:
        if token == "$'":
            match = _ANSI_C.match(self._text, self._at)
            end = match.end() if match else self._at
        else:
            end = self._text.find("'", self._at) + 1 or len(self._text)
        self._out.append(token + self._text[self._at : end])
        self._at = end

    def _double(self) -> None:
        while token := self._next(_IN_DOUBLE):
            if token == '"':
                self._out.append(token)
                return
            if token == "$((":
                self._arithmetic(token)
            else:
                self._common(token, double=True)

    def _braces(self, *, double: bool) -> None:
        while token := self._next(_IN_BRACES):
            if token == "}":
                self._out.append(token)
                return
            if token == "'" and not double:
                self._single(token)
            elif token == "'":
                self._out.append(token)
            else:
                self._common(token, double=double)

    def _arithmetic(self, token: str) -> None:
        """Copy ``$((…))``; if the parentheses do not close together, it is a command substitution."""
        depth, end = 2, self._at
        while depth and end < len(self._text):
            depth += {"(": 1, ")": -1}.get(self._text[end], 0)
            end += 1
        self._budget.spend(end - self._at)
        if depth == 0 and self._text[max(end - 2, self._at) : end] == "))":
            self._out.append(token + self._text[self._at : end])
            self._at = end
        else:
            self._out.append(token[:-1] + " ")
            self._at -= 1
            self._command(nested=True)
        if token == "$((":
            self._glued = len(self._out)

    def _backquotes(self, *, double: bool) -> None:
        end = self._at
        while end < len(self._text) and self._text[end] != "`":
            end += 2 if self._text[end] == "\\" else 1
        self._budget.spend(40 + end - self._at)
        if end >= len(self._text):
            self._out.append("`")
            return
        escape = _QUOTED_INNER_ESCAPE if double else _INNER_ESCAPE
        inner = prepare(escape.sub(r"\1", self._text[self._at : end]), self._is_whole, self._budget)
        self._broken += inner.broken
        whole = self._is_whole(inner.text)
        if not whole:
            self._broken.append(inner.text)
        # On a line of its own: a comment at its end must not swallow the parenthesis.
        self._out.append(f"$({inner.text}\n)" if whole else "$(:)")
        self._glued = len(self._out)
        self._at = end + 1

    # Here-documents

    def _document(self, token: str) -> None:
        match = _DELIMITER.match(self._text, self._at)
        if match is None:
            self._out.append(token)
            return
        word = match.group(1)
        self._at = match.end()
        self._documents.append(
            _HereDocument(
                position=len(self._out),
                delimiter=re.sub(r"\\(.)|['\"]", r"\1", word),
                verbatim=any(mark in word for mark in "'\"\\"),
                tabs=token == "<<-",
            )
        )
        self._out.append("")

    def _bodies(self) -> None:
        """The bodies of the documents announced on the line that just ended."""
        documents, self._documents = self._documents, []
        for document in documents:
            body = self._body(document)
            if document.verbatim:
                string = "'" + body.replace("'", "'\\''") + "'"
            else:
                rewriter = _Rewriter(body, self._is_whole, self._budget)
                string = rewriter.as_double_quoted()
                self._broken += rewriter._broken
            self._out[document.position] = f"< {INLINE}{string} "

    def _body(self, document: _HereDocument) -> str:
        lines: list[str] = []
        while self._at < len(self._text):
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            line = self._text[self._at : end]
            self._at = min(end + 1, len(self._text))
            if document.tabs:
                line = line.lstrip("\t")
            if line == document.delimiter:
                break
            lines.append(line)
        return "\n".join(lines)

    def as_double_quoted(self) -> str:
        """The whole text as a string between double quotes: expansions stay, quotes of its own mean themselves."""
        self._out.append('"')
        while token := self._next(_IN_DOUBLE):
            if token == '"':
                self._out.append('\\"')
            elif token == '\\"':
                self._out.append('\\\\\\"')
            elif token == "$((":
                self._arithmetic(token)
            else:
                self._common(token, double=True)
        self._out.append('"')
        return "".join(self._out)
