"""Trust in project folders: the user's decision whether files of a project may do more than give text.

A project's own files (``.hermes/commands``, ``.hermes/agents``, skills, ``.mcp.json``) were written by others. Without
trust they may give text and narrow the tools that are offered, nothing else. With trust they may also grant tools
(``allowed-tools``), choose a model, run commands (``!`command```) and start MCP servers. Nothing in a project raises
the permission mode or widens the tools of a session.

A user of this module asks one question::

    trust = FolderTrust(home)
    if trust.is_trusted(project_root(cwd), principal):
        ...  # honour what needs trust; otherwise leave it out, and say so with how_to_trust(root)

Only a prompt with a person asks, once for each folder (``decision`` is None until then), and stores the answer with
``decide``. A run without a person never asks, so a folder without a stored yes is not trusted there. The folder of a
caller is never trusted: the caller writes the files in it.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import msgspec

from hermes.base.config.files import locked, read_document, write_private_document
from hermes.base.errors import ConfigError

FILE_NAME = "trusted-folders.json"


#: Texts for agents. A link of a project to anything else, such as its ``.env``, is not read as one.
_TEXT_ENDINGS = (".md", ".mdc", ".txt", ".rst", "rules")


class TrustDecision(msgspec.Struct, kw_only=True):
    """The user's stored answer about one folder."""

    #: The folder with all links resolved.
    folder: str
    is_trusted: bool
    decided_at: str


class _TrustFile(msgspec.Struct):
    folders: list[TrustDecision] = []


class FolderTrust:
    """The decisions of one home. The file is read at the first question, and again after each change."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE_NAME
        self._home = home
        self._known: dict[str, TrustDecision] | None = None

    def is_trusted(self, root: Path, principal: str = "") -> bool:
        """Whether the user trusts exactly this folder; what lies above or below it does not count.

        A file of decisions that cannot be read trusts nothing; ``decisions`` says what is wrong with it.
        """
        if principal:
            return False
        try:
            return self.decision(root) is True
        except ConfigError:
            return False

    def decision(self, root: Path) -> bool | None:
        """The stored answer about a folder; None when the user was not asked yet."""
        found = self._decisions().get(_key(root))
        return None if found is None else found.is_trusted

    def decide(self, root: Path, *, is_trusted: bool) -> TrustDecision:
        """Store the user's answer about a folder."""
        import time

        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        made = TrustDecision(folder=_key(root), is_trusted=is_trusted, decided_at=now)
        with locked(self._home):
            known = self._read()
            known[made.folder] = made
            self._write(known)
        return made

    def forget(self, root: Path) -> TrustDecision | None:
        """Remove the answer about a folder, so that it is asked again; None when there was none."""
        with locked(self._home):
            known = self._read()
            gone = known.pop(_key(root), None)
            if gone is not None:
                self._write(known)
        return gone

    def decisions(self) -> list[TrustDecision]:
        """All stored answers, by folder. Raises ``ConfigError`` when their file cannot be read."""
        return sorted(self._decisions().values(), key=lambda one: one.folder)

    def _decisions(self) -> dict[str, TrustDecision]:
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> dict[str, TrustDecision]:
        advice = "no folder is trusted. Remove the file, and trust folders again with 'hermes trust add'"
        document = read_document(self.path, _TrustFile, "a list of trusted folders", advice)
        return {} if document is None else {one.folder: one for one in document.folders}

    def _write(self, known: dict[str, TrustDecision]) -> None:
        write_private_document(self.path, _TrustFile(list(known.values())))
        self._known = known


def project_root(folder: Path) -> Path:
    """The folder that is trusted as a whole: the root of the git repository, or the folder itself without one."""
    return repository_root(folder) or folder


def repository_root(folder: Path) -> Path | None:
    """The root of the git repository or worktree that the folder lies in."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)


def how_to_trust(root: Path) -> str:
    """The command line that trusts a folder."""
    return f"hermes trust add {shlex.quote(str(root))}"


def _key(root: Path) -> str:
    return os.path.realpath(root)


def is_text_for_agents(real: Path) -> bool:
    """Whether the target of a project's link has the name of a text, so that it may be read without a question."""
    return real.name.lower().endswith(_TEXT_ENDINGS)
