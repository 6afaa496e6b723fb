"""ripgrep and the plain walk must not be told apart by their results."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.scope import Interrupt
from hermes.tools.files.guard import FileGuard
from hermes.tools.search.globs import path_filter
from hermes.tools.search.query import Query
from hermes.tools.search.ripgrep import rg_files, rg_hits
from hermes.tools.search.walk import walk, walk_hits

RG = shutil.which("rg")

names = st.sampled_from(["a", "b", "a.log", "b.txt", ".h", "build", "x-y", "A"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


def _as_text(lines: list[str]) -> str:
    text = "\n".join(lines)
    # Whether `^$` matches behind a carriage return that ends a file depends on ripgrep (13: no, 15: yes).
    return text + "\n" if text.endswith("\r") else text


texts = st.lists(st.sampled_from(["hit", "foo hit bar", "", "none", "HIT", "hit\r", "é hit", "tab\thit"])).map(_as_text)
rules = st.sampled_from(
    ["*.log", "!a.log", "/a", "build/", "a/b", "**/b", "b/**", "a*", "!b.txt", "[ab].txt", "x?y", "# c", "", "/*/a"]
)
ignore_files = st.dictionaries(
    st.sampled_from(["", "a/", "build/"]), st.lists(rules, min_size=1, max_size=4), max_size=2
)
globs = st.none() | st.sampled_from(["*.txt", "*.{log,txt}", "a*", "a/**", "[!a]*", ".h", "**/b"])
patterns = st.sampled_from(["hit", "^hit$", r"\bhit\b", "h.t", "(?i)hit", "^$", "hit|none", r"\s", "é"])


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
@settings(max_examples=60, deadline=None)
@given(
    files=st.dictionaries(paths, texts, max_size=8),
    ignores=ignore_files,
    repository=st.sampled_from(["none", "here", "above", "nested"]),
    glob=globs,
    pattern=patterns,
    context=st.integers(0, 2),
)
def test_both_engines_agree(
    files: dict[str, str],
    ignores: dict[str, list[str]],
    repository: str,
    glob: str | None,
    pattern: str,
    context: int,
) -> None:
    with TemporaryDirectory() as name:
        top = Path(name)
        root = top / "root"
        _make(root, files, ignores)
        where = {"none": None, "here": root, "above": top, "nested": root / "a"}[repository]
        if where is not None and (not where.exists() or where.is_dir()):
            (where / ".git").mkdir(parents=True)
        (top / ".gitignore").write_text("/root/b\n*.txt\n" if repository == "above" else "")
        _compare(root, glob, pattern, context)


def _make(root: Path, files: dict[str, str], ignores: dict[str, list[str]]) -> None:
    root.mkdir()
    written = {path + ".gitignore": "\n".join(lines) + "\n" for path, lines in ignores.items()} | files
    for path, text in written.items():
        parents = [root.joinpath(*path.split("/")[:depth]) for depth in range(1, path.count("/") + 1)]
        if not any(parent.is_file() for parent in parents) and not (root / path).is_dir():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text.encode())


def _compare(root: Path, glob: str | None, pattern: str, context: int) -> None:
    assert RG is not None
    wanted = path_filter(glob) if glob else None
    guard = FileGuard()

    def query(**more: Any) -> Query:
        return Query(pattern, str(root), Interrupt(), file_glob=glob, wanted=wanted, context=context, **more)

    assert list(rg_hits(RG, query(), guard)) == list(walk_hits(query(), guard))
    counted = [(hits.path, hits.count) for hits in rg_hits(RG, query(counts_only=True), guard)]
    assert counted == [(hits.path, hits.count) for hits in walk_hits(query(), guard)]
    assert list(rg_files(RG, query())) == [path for path, _ in walk(query())]
