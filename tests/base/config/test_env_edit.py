"""Changing ``.env``: what is saved comes back, and the rest stays."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.config import env_path, load_env_file
from hermes.base.config.environment import remove_env, save_env
from hermes.base.errors import ConfigError


def test_values_are_set_and_the_rest_stays(home: Path) -> None:
    home.mkdir()
    env_path(home).write_text("# mine\nA=1\nexport B = old\nB=older")
    env_path(home).chmod(0o644)
    save_env(home, {"B": 'it\'s "new" \\ # not a remark', "C": ""})
    lines = env_path(home).read_text().splitlines()
    assert lines[:2] == ["# mine", "A=1"] and "old" not in "".join(lines)
    assert load_env_file(home) == {"A": "1", "B": 'it\'s "new" \\ # not a remark', "C": ""}
    assert stat.S_IMODE(env_path(home).stat().st_mode) == 0o600


@given(value=st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])))
def test_every_value_comes_back_or_is_refused(value: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.getbasetemp() / "env-edit"
    try:
        save_env(home, {"NAME": value})
    except ConfigError:
        assert not value.isprintable() or "\ufffd" in value
    else:
        assert load_env_file(home)["NAME"] == value


def test_what_would_break_the_file_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="the value for TOKEN holds characters that cannot be stored"):
        save_env(home, {"TOKEN": "a\nPATH=/evil"})
    assert not env_path(home).exists()


def test_a_variable_is_removed_with_every_line_of_it_and_the_rest_stays(home: Path) -> None:
    home.mkdir()
    env_path(home).write_text("# mine\nA=1\nexport B = old\nB='new'\nBB=2")
    assert remove_env(home, "B")
    assert env_path(home).read_text() == "# mine\nA=1\nBB=2\n"
    assert not remove_env(home, "B")
