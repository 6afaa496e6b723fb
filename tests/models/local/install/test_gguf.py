"""What is read of a model file, and that anything else is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import ConfigError
from hermes.models.local.install.weights import GgufFacts, read_gguf
from support.local_rig import write_gguf


def test_the_facts(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", context_length=32_768, architecture="qwen3")
    assert read_gguf(path) == GgufFacts("qwen3", 32_768)


def test_a_file_that_does_not_say(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", context_length=0)
    assert read_gguf(path) == GgufFacts("llama", None)


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is not a GGUF"), (b"PK\3\4", "is not a GGUF"), (b"GGUF", "damaged")]
)
def test_other_files(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        read_gguf(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_gguf(tmp_path / "m.gguf")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_gguf(tmp_path)


@given(st.data())
def test_damage_anywhere_is_an_error_or_facts(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf")
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(4, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(4, len(content)))]))
    try:
        assert isinstance(read_gguf(path), GgufFacts)
    except ConfigError as error:
        assert "damaged" in str(error)
