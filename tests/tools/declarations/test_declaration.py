from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import PluginError
from hermes.tools.arguments import fields, text
from hermes.tools.builtin import builtin_tools
from hermes.tools.declarations.builtin import DECLARED
from hermes.tools.declarations.declaration import UNDECLARED, Declaration, Shown, declaration_from
from hermes.tools.registry import Tool, ToolRegistry


def tool(declares: Declaration | None, **arguments: Any) -> Tool:
    return Tool("one", "some", "A tool.", fields([], **arguments), lambda _args, _context: "{}", declares=declares)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (tool(None), "no declaration"),
        (tool(Declaration(), path=text()), "whether it reads or writes path"),
        (tool(Declaration(reads=("path",)), path=text(), output_file=text()), "output_file"),
        (tool(Declaration(reads=("paht",)), path=text()), "path"),
        (tool(Declaration(reads=("path",), runs={"code": "script"}), path=text()), "declares code"),
    ],
)
def test_a_builtin_tool_that_does_not_say_what_it_does_is_refused(made: Tool, problem: str) -> None:
    registry = ToolRegistry()
    with pytest.raises(PluginError, match=problem):
        registry.add_builtin([made])
    registry.add(made)  # another's tool is taken, and taken for the worst
    assert made.may_run_commands is (made.declares is None)


def test_every_builtin_tool_is_declared() -> None:
    registry = ToolRegistry()
    registry.add_builtin(builtin_tools())
    assert registry.declaration("read_file") is DECLARED["read_file"]
    assert registry.declaration("unknown") == Declaration()


def test_what_a_call_reads_and_writes(tmp_path: Path) -> None:
    declared = Declaration(reads=("path", "image"), writes=("files",), patches=("patch",), sends=("image",))
    patch = "*** Begin Patch\n*** Update File: c\n-x\n+y\n*** End Patch"
    args = {"path": "a", "image": "https://example.com/a.png", "files": ["b", 3, ""], "patch": patch}
    assert declared.read_paths(args, tmp_path) == [str(tmp_path / "a")]
    assert declared.written_paths(args, tmp_path) == [tmp_path / "b", tmp_path / "c"]
    assert list(declared.named_paths(args)) == ["a", "b", "c"]
    assert declared.read_paths({"image": "file:///x"}, tmp_path) == [str(tmp_path), "/x"]


def test_what_a_tool_does_not_declare_may_be_a_path(tmp_path: Path) -> None:
    args = {"path": "a", "edits": [{"out_file": "b"}], "uri": "file:///c", "text": "~\nno path", "url": "https://d/e"}
    assert Declaration(reads=("path",)).undeclared_paths(args, tmp_path) == [str(tmp_path / "b")]
    assert sorted(UNDECLARED.undeclared_paths(args, tmp_path)) == ["/c", str(tmp_path / "a"), str(tmp_path / "b")]


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        (Declaration(runs={"command": "command"}, reads=("path",)), "execute"),
        (Declaration(patches=("patch",), reads=("path",)), "edit"),
        (Declaration(reads=("path",), sends=("path",)), "read"),
        (Declaration(sends=("url",)), "fetch"),
        (Declaration(reads=("path",), shown=Shown(kind="search")), "search"),
        (Declaration(), "other"),
    ],
)
def test_the_kind_follows_from_what_a_tool_does(declared: Declaration, kind: str) -> None:
    assert declared.kind == kind


def test_authors_declare_with_keywords() -> None:
    assert declaration_from({}) is None
    assert declaration_from({"reads": ["path"], "subject": ["path"]}) == Declaration(
        reads=("path",), shown=Shown(subject=("path",))
    )
    for wrong in ({"reads": "path"}, {"runs": {"a": "wish"}}, {"is_guarded": True}):
        with pytest.raises(TypeError):
            declaration_from(wrong)  # pyright: ignore[reportArgumentType]
