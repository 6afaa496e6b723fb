"""The cache of the parsed configuration: it saves the parser, and never outlives the text it was made from."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.config.document import parse_document
from hermes.base.config.load import cache_document, cached_document, load_config

TEXT = "model: {provider: custom, default: m}\nagent:\n  max_turns: 7\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def cache_of(path: Path) -> Path:
    return path.with_name("config.yaml.parsed")


def test_the_second_run_needs_no_parser(path: Path) -> None:
    path.write_text(TEXT)
    program = (
        "import sys; from pathlib import Path; from hermes.base.config.load import load_config\n"
        f"print(load_config(Path({str(path.parent)!r})).config.agent.max_turns, 'yaml' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [run.stdout for run in runs] == ["7 True\n", "7 False\n"]


def test_a_changed_text_is_parsed_again(path: Path) -> None:
    path.write_text(TEXT)
    assert load_config(path.parent).config.agent.max_turns == 7
    path.write_text(TEXT.replace("7", "8"))
    assert load_config(path.parent).config.agent.max_turns == 8
    path.write_text(TEXT)
    assert load_config(path.parent).config.agent.max_turns == 7


def test_it_is_private_and_holds_references_as_they_are_written(path: Path) -> None:
    path.write_text("model: {api_key: '${SECRET_OF_THE_TEST}'}\n")
    loaded = load_config(path.parent, environ={"SECRET_OF_THE_TEST": "sk-0123456789"})
    assert loaded.config.model.api_key == "sk-0123456789"
    assert stat.S_IMODE(cache_of(path).stat().st_mode) == 0o600
    assert "sk-0123456789" not in cache_of(path).read_text()
    again = load_config(path.parent, environ={"SECRET_OF_THE_TEST": "sk-another"})
    assert again.config.model.api_key == "sk-another"


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"version": "", "text": "", "document": {}}', b"[]"])
def test_a_damaged_cache_is_no_cache(path: Path, damage: bytes) -> None:
    path.write_text(TEXT)
    load_config(path.parent)
    cache_of(path).write_bytes(damage)
    assert load_config(path.parent).config.agent.max_turns == 7
    assert cached_document(TEXT, path) is not None


def test_an_invalid_configuration_is_not_kept(path: Path) -> None:
    path.write_text("agent: {max_turns: many}\n")
    with pytest.raises(Exception, match="line 1"):
        load_config(path.parent)
    assert not cache_of(path).exists()


@pytest.mark.parametrize("text", ["a: .nan\n", "x: [{2: two}]\n"])
def test_what_json_cannot_hold_is_not_kept(path: Path, text: str) -> None:
    cache_document(text, path, parse_document(text, "here"))
    assert cached_document(text, path) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_kept_is_what_was_parsed(path: Path, document: dict[str, object]) -> None:
    text = repr(document).encode("utf-8", "replace").decode()
    cache_document(text, path, document)
    kept = cached_document(text, path)
    assert kept is None or repr(kept) == repr(document)


def test_a_folder_that_cannot_be_written_is_no_problem(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(TEXT)

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(sys.modules["hermes.base.config.files"].os, "open", refuse)
    assert load_config(path.parent).config.agent.max_turns == 7
