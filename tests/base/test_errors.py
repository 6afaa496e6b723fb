"""The rest of a sentence about an unknown name: the name that was probably meant, or those there are."""

from __future__ import annotations

import pytest

from hermes.base.errors import did_you_mean, nearest

NAMES = ("file", "terminal", "web")


@pytest.mark.parametrize(
    ("name", "options", "clause"),
    [
        ("flie", {}, "; did you mean 'file'?"),
        ("flie", {"then": "It is ignored"}, "; did you mean 'file'? It is ignored"),
        ("flie", {"otherwise": "see --help"}, "; did you mean 'file'?"),
        ("nope", {}, "; there are: file, terminal, web"),
        ("nope", {"then": "It is ignored"}, "; there are: file, terminal, web. It is ignored"),
        ("nope", {"most": 1}, "; there are: file and 2 more"),
        ("nope", {"otherwise": "see --help"}, "; see --help"),
        ("nope", {"otherwise": "see --help", "then": "It is ignored"}, "; see --help. It is ignored"),
        ("nope", {"otherwise": ""}, ""),
        ("nope", {"otherwise": "", "then": "It is ignored"}, ". It is ignored"),
    ],
)
def test_the_clause_has_its_punctuation(name: str, options: dict[str, str], clause: str) -> None:
    assert did_you_mean(name, NAMES, **options) == clause  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("known", "clause"), [((), "; there are none"), (("file",), "; there is only file")])
def test_a_list_of_one_and_of_none(known: tuple[str, ...], clause: str) -> None:
    assert did_you_mean("nope", known) == clause


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("File", NAMES, "file"),
        ("term", NAMES, "terminal"),
        ("GPT-5-mini", ("gpt-5", "GPT-5-Mini"), "GPT-5-Mini"),
        ("berlin", ("Europe/Berlin", "Africa/Cairo"), "Europe/Berlin"),
        (
            "claude",
            ("vendor/claude-opus-preview-thinking", "vendor/claude-haiku-preview"),
            "vendor/claude-haiku-preview",
        ),
        ("e", NAMES, ""),
        ("zzz", NAMES, ""),
        ("", NAMES, ""),
    ],
)
def test_the_nearest_name(name: str, known: tuple[str, ...], meant: str) -> None:
    assert nearest(name, known) == meant
