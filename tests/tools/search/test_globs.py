from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.tools.search.globs import name_filter, parse_gitignore, path_filter
from hermes.tools.search.query import python_pattern


@pytest.mark.parametrize(
    ("glob", "fits", "differs"),
    [
        ("*.py", ["a.py", "deep/er/a.py"], ["a.pyc", "a.py/b"]),
        ("a?c", ["abc", "x/abc"], ["ac", "a/c"]),
        ("[ab].txt", ["a.txt", "x/b.txt"], ["c.txt"]),
        ("[!ab].txt", ["c.txt"], ["a.txt"]),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.t", "a.js"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/b/a.py", "x/src/a.py"]),
        ("./src/*.py", ["src/a.py"], ["a.py"]),
        ("src/**/*.py", ["src/a.py", "src/b/c/a.py"], ["a.py"]),
        ("**/test_*.py", ["test_a.py", "b/c/test_a.py"], ["b/a.py"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("[z-a]", ["[z-a]"], ["b"]),
        ("[a-c-]x", ["bx", "-x"], ["dx"]),
        ("[&&~~||]x", ["&x", "|x"], ["ax"]),
        ("{open", ["{open"], ["open"]),
        ("a[", ["a["], ["a"]),
        ("a+b(c).txt", ["a+b(c).txt"], ["aab(c).txt"]),
    ],
)
def test_patterns(glob: str, fits: list[str], differs: list[str]) -> None:
    accepts = path_filter(glob)
    assert all(accepts(path) for path in fits)
    assert not any(accepts(path) for path in differs)


def test_a_plain_word_is_a_part_of_a_name() -> None:
    accepts = name_filter("Read")
    assert accepts("README.md") and accepts("a/b/already.txt")
    assert not accepts("read/me.txt")
    assert name_filter("read*")("readme") and not name_filter("read*")("README")
    assert name_filter("a/b")("a/b") and not name_filter("a/b")("x/a/b")


@pytest.mark.parametrize(
    ("rules", "ignored", "kept"),
    [
        ("*.log\n!keep.log", ["a.log", "x/b.log"], ["keep.log", "a.txt"]),
        ("/top", ["top"], ["x/top"]),
        ("a/b", ["a/b"], ["x/a/b", "b"]),
        ("a/**/z", ["a/z", "a/b/c/z"], ["z"]),
        ("**/cache", ["cache", "x/cache"], ["caches"]),
        ("# comment\n\n\\#name\n\\!bang", ["#name", "!bang"], ["comment"]),
        ("trailing   ", ["trailing"], ["trailing   "]),
        ("dir/*", ["dir/a"], ["dir", "dir/a/b"]),
        ("dir/**", ["dir/a", "dir/a/b"], ["dir"]),
    ],
)
def test_ignore_rules(rules: str, ignored: list[str], kept: list[str]) -> None:
    ignore = parse_gitignore(rules)
    assert ignore is not None
    assert all(ignore.verdict(path, is_directory=False) for path in ignored)
    assert not any(ignore.verdict(path, is_directory=False) for path in kept)


def test_rules_for_directories_spare_files() -> None:
    ignore = parse_gitignore("build/")
    assert ignore is not None
    assert ignore.verdict("x/build", is_directory=True) is True
    assert ignore.verdict("x/build", is_directory=False) is None


def test_rules_count_from_where_their_file_is() -> None:
    below = parse_gitignore("/a", base="sub/")
    above = parse_gitignore("/sub/a", above="sub/")
    assert below is not None and above is not None
    assert below.verdict("sub/a", is_directory=False) and not below.verdict("sub/x/a", is_directory=False)
    assert above.verdict("a", is_directory=False) and not above.verdict("x/a", is_directory=False)


def test_a_file_without_rules_is_none() -> None:
    assert parse_gitignore("# only a comment\n\n") is None


@given(st.text(st.sampled_from("*?[]{}!\\/a-,.^ \n#")))
def test_any_pattern_compiles(text: str) -> None:
    path_filter(text)("a/b.c")
    ignore = parse_gitignore(text)
    if ignore:
        ignore.verdict("a/b.c", is_directory=True)


@pytest.mark.parametrize(
    ("pattern", "fits", "differs"),
    [
        ("[[:digit:]]+x", "12x", "ax"),
        ("[^[:space:]_]", "a", "_ "),
        ("[[a]", "[", "b"),
        ("[]a]", "]", "b"),
        ("[^]a]", "b", "]a"),
        ("[a&&b]", "&", "c"),
        ("[a||b~~]", "~", "c"),
        (r"[\]x]", "]", "y"),
        (r"\[a\]", "[a]", "a"),
        ("[+--]", ",", "."),
        ("a|b", "b", "c"),
    ],
)
def test_sets_mean_the_same_without_warnings(pattern: str, fits: str, differs: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = re.compile(python_pattern(pattern))
    assert compiled.search(fits) and not compiled.search(differs)


@given(st.text(st.sampled_from("[]^-&|~:alph\\d()*+")))
def test_no_pattern_makes_python_warn(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            re.compile(python_pattern(pattern))
        except re.error:
            pass
