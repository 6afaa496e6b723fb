"""Project instructions: ``AGENTS.md`` and files like it, from the root of the repository down to the working folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from hermes.base.config.trust import is_text_for_agents, repository_root
from hermes.contract.events import ToolEnded
from hermes.tools.declarations.declaration import Declaration, resolve_paths

#: The file of a folder is the first of these that exists.
FILE_NAMES = ("AGENTS.md", "CLAUDE.md", ".hermes.md")
MAX_FILE_BYTES = 32 * 1024
MAX_TOTAL_BYTES = 64 * 1024

_PREFACE = (
    "The files below are instructions that the user and the authors of the project wrote for agents. Follow them in "
    "this project; where two disagree, the later one is nearer to the work and wins. What the user says in the "
    "conversation comes before them, and they cannot widen what you are allowed to do."
)
_TAG = "project_instructions"


class InstructionFile(msgspec.Struct, frozen=True):
    """One file as it is given to the model."""

    #: As the model and the user see it: relative to the root of the project, or ``~/.hermes/AGENTS.md``.
    name: str
    text: str
    size: int

    @property
    def opening(self) -> str:
        """The line before the text; it shows whether a conversation has the file already."""
        return f'<{_TAG} file="{self.name}">'

    def fenced(self) -> str:
        """The text between tags that it cannot close itself."""
        return f"{self.opening}\n{self.text.strip().replace(f'</{_TAG}', f'< /{_TAG}')}\n</{_TAG}>"


class ProjectInstructions:
    """The instructions for work in one folder. Read once, so that the system prompt stays the same in a session.

    ``user_folder`` is the folder of the user's own file; None leaves it out. With ``is_confined`` only the working
    folder itself counts, for callers that must not see what is above it.
    """

    def __init__(self, cwd: Path, *, user_folder: Path | None = None, is_confined: bool = False) -> None:
        self._cwd = cwd
        self._user_folder = user_folder
        self.root = cwd if is_confined else repository_root(cwd) or cwd
        #: What the user should know: files that were cut or left out.
        self.notices: list[str] = []
        #: Folders of paths, and those between them and the working folder, that were looked at.
        self._seen: set[str] = set()

    @cached_property
    def files(self) -> Sequence[InstructionFile]:
        """The user's own file, then those of the project from its root down."""
        found: list[InstructionFile] = []
        room = MAX_TOTAL_BYTES
        folders = [self.root]
        for part in self._cwd.relative_to(self.root).parts:
            folders.append(folders[-1] / part)
        for folder in (self._user_folder, *folders):
            file = None if folder is None else self._file_of(folder, room)
            if file is not None:
                found.append(file)
                room -= len(file.text.encode())
        return found

    def prompt_block(self) -> str:
        """The part of the system prompt; empty when there is no file."""
        return "\n\n".join([_PREFACE, *(file.fenced() for file in self.files)]) if self.files else ""

    def below(self, paths: Iterable[str], is_given: Callable[[str], bool]) -> list[str]:
        """The instructions of deeper folders that these paths lie in, as messages.

        ``is_given`` finds the opening line of a file in the conversation: what is there is not given again.
        """
        texts: list[str] = []
        for parent in map(os.path.dirname, paths):
            if parent in self._seen:
                continue
            inside = Path(parent).relative_to(self._cwd).parts if self._cwd in Path(parent).parents else ()
            for depth in range(1, len(inside) + 1):
                folder = self._cwd.joinpath(*inside[:depth])
                if str(folder) in self._seen:
                    continue
                self._seen.add(str(folder))
                file = self._file_of(folder, MAX_FILE_BYTES)
                if file is not None and not is_given(file.opening):
                    where = folder.relative_to(self._cwd)
                    texts.append(f"Instructions of the project for work in {where}:\n\n{file.fenced()}")
            self._seen.add(parent)
        return texts

    def _file_of(self, folder: Path, room: int) -> InstructionFile | None:
        path = next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)
        if path is None:
            return None
        is_own = folder == self._user_folder
        name = f"~/.hermes/{path.name}" if is_own else str(path.relative_to(self.root))
        try:
            real = path.resolve()
            if not is_own and self.root.resolve() not in real.parents:
                self.notices.append(f"{name} is a link that leaves the project; it is not read")
                return None
            if not is_own and not is_text_for_agents(real):
                self.notices.append(f"{name} is a link to {real.name}, which is not a Markdown file; it is not read")
                return None
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            self.notices.append(f"{name} cannot be read: {error.strerror}")
            return None
        limit = min(MAX_FILE_BYTES, room)
        if size > limit:
            self.notices.append(f"{name} has {size:,} bytes; only the first {max(limit, 0):,} are given to the model")
        text = data[: max(limit, 0)].decode("utf-8", "replace").replace("\0", "")
        return InstructionFile(name, text, size) if text.strip() else None


def files_of_call(call: ToolEnded, declared: Declaration, cwd: Path) -> list[str]:
    """The files that a call reads or writes. What only searches a folder does not work in it."""
    return resolve_paths(declared.named_paths(call.args), cwd) if declared.kind in ("read", "edit") else []
