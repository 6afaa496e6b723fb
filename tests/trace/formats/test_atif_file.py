"""Trajectory files: named after their session, private, and never half there."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.trace.formats.atif import DEFAULT_TEMPLATE, file_name, write_trajectory


def test_a_document_is_written_privately_and_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "down"
    path = write_trajectory(folder, DEFAULT_TEMPLATE, {"session_id": "s1", "steps": [1]})
    assert path == folder / "trajectory-s1.json" and stat.S_IMODE(path.stat().st_mode) == 0o600
    write_trajectory(folder, DEFAULT_TEMPLATE, {"session_id": "s1", "steps": [1, 2]})
    assert json.loads(path.read_text())["steps"] == [1, 2]
    assert [one.name for one in folder.iterdir()] == ["trajectory-s1.json"]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "precious"
    other.write_text("keep")
    (tmp_path / "trajectory-s.json").symlink_to(other)
    write_trajectory(tmp_path, DEFAULT_TEMPLATE, {"session_id": "s"})
    assert other.read_text() == "keep" and not (tmp_path / "trajectory-s.json").is_symlink()


def test_what_cannot_be_encoded_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_trajectory(tmp_path, DEFAULT_TEMPLATE, {"session_id": "s"})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_trajectory(tmp_path, DEFAULT_TEMPLATE, {"session_id": "s", "steps": [object()]})
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        write_trajectory(tmp_path / "file" / "x", DEFAULT_TEMPLATE, {"session_id": "s"})


@pytest.mark.parametrize("template", ["../{session_id}", "a/{session_id}", "{name}.json", "..", "", "{session_id", "."])
def test_templates_that_lead_elsewhere_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"allowed"):
        file_name(template, "s")


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_session_id_gives_a_plain_name_of_its_own(one: str, other: str) -> None:
    name = file_name(DEFAULT_TEMPLATE, one)
    assert Path(name).name == name and "/" not in name and len(name.encode()) < 200 and name.isascii()
    assert (name == file_name(DEFAULT_TEMPLATE, other)) == (one == other)
