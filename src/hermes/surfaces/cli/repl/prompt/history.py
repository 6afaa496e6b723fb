"""Input history of the prompt, in a file shared by all processes."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from hermes.base.sanitize import Redactor

log = logging.getLogger("hermes.surfaces.cli.repl")

_MOST_ENTRIES = 10_000
#: A longer entry is a document that was pasted; it is remembered until the program ends, no longer.
_LONGEST_ENTRY = 32_768


class PromptHistory(History):
    """The entries of all prompts of one home, one JSON string a line, the newest last.

    What begins with a blank is not kept, and secrets are masked before anything is. A file that cannot be read or
    written costs the history and not the prompt.
    """

    def __init__(self, path: Path, redactor: Redactor, *, most: int = _MOST_ENTRIES) -> None:
        super().__init__()
        self._path = Path(os.path.realpath(path))
        self._redactor = redactor
        self._most = most
        self._failed = False

    def append_string(self, string: str) -> None:
        """Remember an entry."""
        entry = self._redactor.redact(string).encode("utf-8", "replace").decode("utf-8")
        newest = next(iter(self.get_strings()[-1:]), None)
        if entry.strip() and not entry.startswith(" ") and entry != newest:
            super().append_string(entry)

    def load_history_strings(self) -> Iterable[str]:
        """The entries on file, the newest first."""
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            self._report("read", error)
            return []
        entries = map(_entry, reversed(lines[-self._most :]))
        return [entry for entry in entries if entry is not None]

    def store_string(self, string: str) -> None:
        """Add an entry to the file. Several processes may do so at once."""
        if len(string) > _LONGEST_ENTRY:
            return
        line = msgspec.json.encode(string) + b"\n"
        try:
            with _locked(self._path) as file:
                content = self._path.read_bytes()
                lines = content.splitlines()
                if len(lines) >= self._most:
                    self._replace(b"".join(kept + b"\n" for kept in lines[-(self._most - 1) :]) + line)
                else:  # the last line may be incomplete, after a full disk or a manual edit
                    os.write(file, line if not content or content.endswith(b"\n") else b"\n" + line)
        except OSError as error:
            self._report("write", error)

    def _replace(self, content: bytes) -> None:
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(file, "wb") as stream:  # noqa: PTH123  (a descriptor, opened above with its mode)
            stream.write(content)
        beside.replace(self._path)

    def _report(self, what: str, error: OSError) -> None:
        if not self._failed:
            self._failed = True
            log.warning("cannot %s the prompt history %s: %s", what, self._path, error.strerror)


@contextmanager
def _locked(path: Path) -> Generator[int]:
    """The file, open for appending and ours alone until the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Another process may have replaced the file while this one waited for the lock.
            if _is_at(file, path):
                if os.fstat(file).st_mode & 0o077:
                    os.fchmod(file, 0o600)
                yield file
                return
        finally:
            os.close(file)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _entry(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(line, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
