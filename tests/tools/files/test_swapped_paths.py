"""A folder that becomes a symbolic link between the check and the access: nothing outside is read or written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.host import Host
from hermes.testing import ScriptedProvider, text, tool_call
from hermes.tools.files import atomic, draft, read_file, write_file
from support.configured import configured_host, tool_answers

#: Calls that change ``folder/note`` and would change the same file behind a link.
WRITES = [
    ("write_file", {"path": "folder/note", "content": "evil"}),
    ("write_file", {"path": "folder/new/note", "content": "evil"}),
    ("patch", {"mode": "replace", "path": "folder/note", "old_string": "old", "new_string": "evil"}),
    ("patch", {"mode": "patch", "patch": "*** Begin Patch\n*** Delete File: folder/note\n*** End Patch"}),
]


class Swap:
    """Replaces the folder by a link to another one, once."""

    def __init__(self, folder: Path, target: Path) -> None:
        self._folder, self._target = folder, target
        self.is_done = False

    def __call__(self) -> None:
        if not self.is_done:
            self.is_done = True
            self._folder.rename(self._folder.with_name("moved"))
            self._folder.symlink_to(self._target)

    def before(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        """Swap right before that function runs."""
        original: Callable[..., Any] = getattr(module, name)

        def swapped(*args: Any, **kwargs: Any) -> Any:
            self()
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, swapped)


@pytest.fixture
def swap(workdir: Path, tmp_path: Path) -> Swap:
    target = tmp_path / "elsewhere" / ".ssh"
    for folder in (workdir / "folder", target):
        folder.mkdir(parents=True)
        (folder / "note").write_text("old\n")
    return Swap(workdir / "folder", target)


def run(home: Path, workdir: Path, call: tuple[str, dict[str, Any]], prepare: Callable[[Host], None]) -> dict[str, Any]:
    with (
        ScriptedProvider([tool_call(*call), text("done")]) as provider,
        configured_host(home, workdir, provider) as host,
    ):
        prepare(host)
        session = host.new_session()
        session.run("go")
        [answer] = tool_answers(host, session.id)
        return answer


def swap_before_the_tool(swap: Swap) -> Callable[[Host], None]:
    """After the gate, before the tool: the call is recorded as started in between."""

    def prepare(host: Host) -> None:
        consume = host.runtime.approvals.mode_of

        def mode_of(scope: Any) -> Any:
            # The examination and the decision ask for the mode first; the third time the call is about to run.
            calls.append(scope)
            if len(calls) == 3:
                swap()
            return consume(scope)

        calls: list[Any] = []
        host.runtime.approvals.mode_of = mode_of  # type: ignore[method-assign]

    return prepare


@pytest.mark.parametrize("call", WRITES)
def test_a_swap_between_the_gate_and_the_tool(
    home: Path, workdir: Path, tmp_path: Path, swap: Swap, call: tuple[str, dict[str, Any]]
) -> None:
    answer = run(home, workdir, call, swap_before_the_tool(swap))
    assert swap.is_done and "not what was checked" in answer["error"]
    assert [(path.name, path.read_text()) for path in (tmp_path / "elsewhere/.ssh").iterdir()] == [("note", "old\n")]


@pytest.mark.parametrize("call", WRITES)
def test_a_swap_right_before_the_write(
    home: Path,
    workdir: Path,
    tmp_path: Path,
    swap: Swap,
    monkeypatch: pytest.MonkeyPatch,
    call: tuple[str, dict[str, Any]],
) -> None:
    swap.before(monkeypatch, write_file if call[0] == "write_file" else draft, "apply_changes")
    answer = run(home, workdir, call, lambda _host: None)
    assert swap.is_done and answer["error"]
    assert [(path.name, path.read_text()) for path in (tmp_path / "elsewhere/.ssh").iterdir()] == [("note", "old\n")]


def test_a_swap_while_it_is_written_changes_nothing_outside(
    workdir: Path, tmp_path: Path, swap: Swap, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap.before(monkeypatch, atomic, "_take_over_permissions")
    atomic.apply_changes([atomic.FileChange(str(workdir / "folder/note"), b"old\n", b"new\n")])
    assert (tmp_path / "elsewhere/.ssh/note").read_text() == "old\n"
    assert (workdir / "moved/note").read_text() == "new\n", "the folder that was opened"


@pytest.mark.parametrize(
    "call",
    [("read_file", {"path": "folder/note"}), ("search_files", {"pattern": "old", "path": "folder/note"})],
)
def test_a_file_that_is_swapped_for_a_key_is_not_read(
    home: Path, workdir: Path, swap: Swap, call: tuple[str, dict[str, Any]]
) -> None:
    """The gate asks about keys; it saw an ordinary file."""
    answer = run(home, workdir, call, swap_before_the_tool(swap))
    assert swap.is_done and "not what was checked" in answer["error"]


def test_a_file_that_is_swapped_while_it_is_opened_is_not_read(
    home: Path, workdir: Path, swap: Swap, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def late(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path).endswith("folder/note"):
            swap()
        return real_open(path, *args, **kwargs)

    monkeypatch.setattr(read_file.os, "open", late)
    answer = run(home, workdir, ("read_file", {"path": "folder/note"}), lambda _host: None)
    assert swap.is_done and "replaced while it was opened" in answer["error"]
