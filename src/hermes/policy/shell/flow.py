"""Data flow between commands: known text, or at least its origin and taint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hermes.policy.shell.marks import DECODED, PRIVATE, REMOTE, SECRET, UNKNOWN, taint_of, worst_taint

#: From harmless to suspicious; a combination has the most suspicious origin.
Origin = Literal["terminal", "text", "file", "program", "decoded", "remote"]
_ORIGINS: tuple[Origin, ...] = ("terminal", "text", "file", "program", "decoded", "remote")
_LONGEST = 65_536


@dataclass(frozen=True, slots=True)
class Flow:
    """A stream between programs, or the content of a file written in the same command line."""

    text: str | None
    origin: Origin
    #: The mark of the secret that unknown text contains: ``SECRET``, ``TOKEN``, ``PRIVATE`` or nothing.
    secret: str = ""

    @property
    def taint(self) -> str:
        """The mark of the secret in it, or nothing."""
        return self.secret or (taint_of(self.text) if self.text else "")

    def as_value(self) -> str:
        """The text as a command substitution gives it, or the marker for unknown text."""
        if self.text is not None:
            return self.text.replace("\0", "").rstrip("\n")
        mark = REMOTE if self.origin == "remote" else DECODED if self.origin == "decoded" else UNKNOWN
        return mark + self.secret

    def made_into(self, text: str | None, origin: Origin) -> Flow:
        """The output of a program that reads this stream: at least as suspicious."""
        return Flow(text, _worst([self.origin, origin]), self.taint if text is None else "")

    def tainted(self, secret: str) -> Flow:
        """The same stream, when a program put a secret into it."""
        taint = worst_taint((secret, self.secret))
        if taint == self.taint:
            return self
        origin = "program" if self.origin in ("terminal", "text") else self.origin
        return Flow(None, origin, taint)


TERMINAL = Flow(None, "terminal")
NOTHING = Flow("", "text")
PROGRAM = Flow(None, "program")
A_FILE = Flow(None, "file")
SECRET_FILE = Flow(None, "file", SECRET)
PRIVATE_FILE = Flow(None, "file", PRIVATE)
DOWNLOAD = Flow(None, "remote")


def text_flow(text: str) -> Flow:
    """Known text; unknown when it is too long."""
    return Flow(text, "text") if len(text) <= _LONGEST else Flow(None, "program", taint_of(text))


def _worst(origins: Iterable[Origin]) -> Origin:
    return _ORIGINS[max(map(_ORIGINS.index, origins))]


def joined(flows: Sequence[Flow]) -> Flow:
    """One stream after the other."""
    if len(flows) == 1:
        return flows[0]
    if not flows:
        return NOTHING
    origin = _worst(flow.origin for flow in flows)
    texts = [flow.text for flow in flows]
    if any(text is None for text in texts):
        return Flow(None, origin, worst_taint(flow.taint for flow in flows))
    text = "".join(text for text in texts if text)
    return Flow(text, origin) if len(text) <= _LONGEST else Flow(None, origin, taint_of(text))
