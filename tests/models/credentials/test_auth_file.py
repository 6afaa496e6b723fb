"""``auth.json``: private, whole at every instant, and kept aside when it is damaged."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import ConfigError, CredentialError
from hermes.models.credentials.store import AuthFile, add_key, remove

KEY = "sk-stored-0123456789abcdef"


def document(file: AuthFile) -> dict[str, Any]:
    return json.loads(file.path.read_bytes())


def write(file: AuthFile, content: object) -> None:
    file.home.mkdir(exist_ok=True)
    file.path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_a_key_is_stored_in_a_file_of_its_owner_alone(file: AuthFile) -> None:
    stored = add_key(file, "openrouter", KEY, "work")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    found = document(file)
    assert found["version"] == 1
    assert found["credential_pool"]["openrouter"] == [
        {
            "id": stored.id,
            "label": "work",
            "auth_type": "api_key",
            "access_token": KEY,
            "source": "manual",
            "priority": 0,
            "last_status": "ok",
            "request_count": 0,
        }
    ]
    assert [one.secret for one in AuthFile(file.home).credentials("openrouter")] == [KEY]
    assert file.providers() == ["openrouter"]


def test_nothing_is_made_by_reading(file: AuthFile) -> None:
    assert file.credentials("openrouter") == []
    assert not file.home.exists()


def test_what_is_not_known_here_stays(file: AuthFile) -> None:
    other = {"id": "1", "access_token": "sk-other", "agent_key": "x", "inference": {"a": [1]}}
    pool: dict[str, Any] = {"nous": [other, "strange", {"label": "no key"}], "custom:lab": [{"id": "2"}]}
    write(
        file,
        {"version": 1, "providers": {"nous": {"t": 1}}, "active_provider": "nous", "x": 2, "credential_pool": pool},
    )
    add_key(file, "lab", KEY)
    found = document(file)
    assert (found["providers"], found["active_provider"], found["x"]) == ({"nous": {"t": 1}}, "nous", 2)
    assert found["credential_pool"]["nous"] == pool["nous"]
    assert found["credential_pool"]["custom:lab"] == pool["custom:lab"]
    assert [one.secret for one in file.credentials("nous")] == ["sk-other"]


def test_the_keys_of_a_named_endpoint_may_stand_under_custom(file: AuthFile) -> None:
    write(file, {"credential_pool": {"custom:lab": [{"id": "a", "access_token": "sk-1", "label": "old"}]}})
    assert [one.id for one in file.credentials("lab")] == ["a"]
    assert file.providers() == ["lab"]
    with pytest.raises(CredentialError, match="'old' is stored for lab already"):
        add_key(file, "lab", KEY, "old")
    remove(file, "lab", "old")
    assert document(file)["credential_pool"] == {}


def test_a_change_by_somebody_else_is_seen(file: AuthFile) -> None:
    add_key(file, "lab", KEY)
    other = AuthFile(file.home)
    assert len(other.credentials("lab")) == 1
    add_key(file, "lab", f"{KEY}-2")
    assert len(other.credentials("lab")) == 2
    file.path.unlink()
    assert other.credentials("lab") == []


def test_others_lose_sight_of_the_file_with_the_first_edit(file: AuthFile) -> None:
    write(file, {})
    file.path.chmod(0o644)
    add_key(file, "lab", KEY)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_link_stays_a_link(file: AuthFile, tmp_path: Path) -> None:
    file.home.mkdir()
    real = tmp_path / "elsewhere.json"
    real.write_text("{}")
    file.path.symlink_to(real)
    add_key(file, "lab", KEY)
    assert file.path.is_symlink() and KEY in real.read_text()


def test_what_a_killed_writer_left_is_removed(file: AuthFile) -> None:
    file.home.mkdir()
    left = file.home / ".auth.json.0123abcd.tmp"
    left.write_text(KEY)
    add_key(file, "lab", KEY)
    assert not left.exists()


DAMAGES = [
    "{not json",
    '"a text"',
    '{"credential_pool": []}',
    '{"credential_pool": {"lab": {"id": "x"}}}',
    "\udcff\x00".encode("utf-8", "surrogateescape").decode("latin-1"),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_kept_aside_and_counts_as_empty(file: AuthFile, damage: str) -> None:
    write(file, damage)
    before = file.path.read_bytes()
    copy = file.home / "auth.json.corrupt"
    assert file.credentials("lab") == []
    assert copy.read_bytes() == before and stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert file.path.read_bytes() == before  # reading changes nothing
    assert len(file.notices) == 1 and "is damaged" in file.notices[0] and "auth.json.corrupt" in file.notices[0]
    add_key(file, "lab", KEY)
    assert [one.secret for one in file.credentials("lab")] == [KEY]
    assert copy.read_bytes() == before
    assert len(file.notices) == 1
    assert sorted(path.name for path in file.home.glob("auth*")) == ["auth.json", "auth.json.corrupt"]


def test_a_second_damage_gets_a_name_of_its_own_and_the_same_one_does_not(file: AuthFile) -> None:
    for number, damage in enumerate(["{first", "{second", "{first", "{second"]):
        write(file, damage)
        assert AuthFile(file.home).credentials("lab") == [], number
    assert (file.home / "auth.json.corrupt").read_text() == "{first"
    assert (file.home / "auth.json.corrupt-2").read_text() == "{second"
    assert not (file.home / "auth.json.corrupt-3").exists()


def test_a_damage_that_the_first_writer_finds_is_kept_aside_too(file: AuthFile) -> None:
    write(file, "{broken")
    add_key(file, "lab", KEY)
    assert (file.home / "auth.json.corrupt").read_text() == "{broken"
    assert len(file.notices) == 1


def test_an_empty_file_is_no_damage(file: AuthFile) -> None:
    write(file, " \n")
    assert file.credentials("lab") == [] and file.notices == []


def test_a_file_of_a_newer_version_is_refused_and_left_alone(file: AuthFile) -> None:
    write(file, {"version": 2, "credential_pool": 5})
    before = file.path.read_bytes()
    for action in (lambda: file.credentials("lab"), lambda: add_key(file, "lab", KEY)):
        with pytest.raises(CredentialError, match=r"newer version of hermes \(version 2, this one knows 1\)"):
            action()
    assert file.path.read_bytes() == before


def test_what_cannot_be_read_is_not_empty(file: AuthFile) -> None:
    file.path.mkdir(parents=True)
    with pytest.raises(CredentialError, match="cannot be read: Is a directory"):
        file.credentials("lab")
    with pytest.raises(CredentialError, match="cannot be read: Is a directory"):
        add_key(file, "lab", KEY)


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("")
    file = AuthFile(home)
    assert file.credentials("lab") == []
    with pytest.raises(ConfigError, match="cannot be written: File exists"):
        add_key(file, "lab", KEY)


def test_keys_that_are_none_are_refused(file: AuthFile) -> None:
    for key, message in (("", "is empty"), ("sk a", "a blank"), ("sk-\nA=1", "a line break"), ("sk-ü", "non-ASCII")):
        with pytest.raises(CredentialError, match=message):
            add_key(file, "lab", key)
    for name in ("a\x1b[2J", "x" * 65, " a"):
        with pytest.raises(CredentialError, match="a profile name"):
            add_key(file, "lab", KEY, name)
    assert not file.path.exists()


def test_the_same_key_and_the_same_name_are_refused(file: AuthFile) -> None:
    add_key(file, "lab", KEY, "work")
    with pytest.raises(CredentialError, match="this key is stored for lab already, as 'work'") as caught:
        add_key(file, "lab", KEY)
    assert KEY not in str(caught.value)
    with pytest.raises(CredentialError, match="choose another name, or remove it first"):
        add_key(file, "lab", f"{KEY}-2", "work")
    assert [one.label for one in file.credentials("lab")] == ["work"]


def test_names_are_found_for_keys_without_one(file: AuthFile) -> None:
    for number in range(3):
        add_key(file, "lab", f"{KEY}-{number}")
    remove(file, "lab", "key-2")
    add_key(file, "lab", f"{KEY}-again")
    assert [one.label for one in file.credentials("lab")] == ["key-1", "key-3", "key-2"]


def test_removing_takes_exactly_one(file: AuthFile) -> None:
    with pytest.raises(CredentialError, match="nothing is stored for lab"):
        remove(file, "lab")
    first = add_key(file, "lab", KEY, "a")
    assert remove(file, "lab").id == first.id
    first, second = add_key(file, "lab", KEY, "a"), add_key(file, "lab", f"{KEY}-2", "b")
    with pytest.raises(CredentialError, match=f"several .* name one of: {first.id} \\(a\\), {second.id} \\(b\\)"):
        remove(file, "lab")
    with pytest.raises(CredentialError, match="no credential 'c' is stored for lab"):
        remove(file, "lab", "c")
    assert remove(file, "lab", second.id).label == "b"
    assert [one.label for one in file.credentials("lab")] == ["a"]
