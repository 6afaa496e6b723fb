"""Who decides what is exported: the environment, a plugins.toml, and what happens when that cannot be used."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.bundled.observability.nemo_relay.plugins_toml import (
    PluginsTomlError,
    read_plugins_toml,
    translated,
    with_files,
)
from hermes.bundled.observability.nemo_relay.settings import AtifFiles, AtofFile, is_plain_name, read_settings
from support.relay_rig import PREFIX, VERSION, HostMaker, problems, trajectories

#: Word for word what the documentation has.
MINIMAL_TOML = """\
version = 1

[[components]]
kind = "observability"
enabled = true

[components.config]
version = 1

[components.config.atof]
enabled = true
output_directory = ".nemo-relay/atof"
filename = "events.jsonl"
mode = "overwrite"

[components.config.atif]
enabled = true
output_directory = ".nemo-relay/atif"
filename_template = "trajectory-{session_id}.json"
agent_name = "Hermes Agent"
agent_version = "local"
"""
NO_ATIF = MINIMAL_TOML.partition("[components.config.atif]")[0]
ATIF_OFF = MINIMAL_TOML.replace("[components.config.atif]\nenabled = true", "[components.config.atif]\nenabled = false")
NEITHER = (
    'version = 1\n[[components]]\nkind = "adaptive"\n[components.config.tool_parallelism]\nmode = "observe_only"\n'
)
BAD_MODE = NEITHER.replace("observe_only", "guess")
UNKNOWN_KIND = MINIMAL_TOML + '\n[[components]]\nkind = "nonsense"\nenabled = true\n'


@pytest.fixture
def toml_run(exporting_host: HostMaker, relay_folder: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs one session with a plugins.toml of that text; which files there are, by who asked for them."""

    def run(content: str) -> dict[str, bool]:
        path = workdir / "plugins.toml"
        path.write_text(content)
        monkeypatch.setenv(f"{PREFIX}PLUGINS_TOML", "plugins.toml")
        monkeypatch.chdir(workdir)
        host = exporting_host("hello")
        host.new_session().run("go")
        host.close()
        own = workdir / ".nemo-relay"
        return {
            "toml atof": _has_content(own / "atof" / "events.jsonl"),
            "toml atif": any((own / "atif").glob("trajectory-*.json")),
            "env atof": _has_content(relay_folder / "atof" / "events.jsonl"),
            "env atif": any((relay_folder / "atif").glob("*.json")),
        }

    return run


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (MINIMAL_TOML, {"toml atof", "toml atif"}),
        (NO_ATIF, {"toml atof", "env atif"}),
        (ATIF_OFF, {"toml atof", "env atif"}),
        (NEITHER, {"env atif"}),
        ("version = [", {"env atof", "env atif"}),
        ("components = 3", {"env atof", "env atif"}),
        (BAD_MODE, {"env atof", "env atif"}),
        (UNKNOWN_KIND, {"env atof", "env atif"}),
    ],
    ids=["both", "no atif", "atif off", "adaptive only", "no TOML", "no components", "bad mode", "unknown kind"],
)
def test_the_table(
    toml_run: Any, relay_folder: Path, workdir: Path, caplog: pytest.LogCaptureFixture, content: str, written: set[str]
) -> None:
    with caplog.at_level(logging.WARNING, "hermes.plugins.nemo_relay"):
        found = toml_run(content)
    assert {name for name, there in found.items() if there} == written
    refusals = [record for record in caplog.records if "settings apply" in record.getMessage()]
    assert len(refusals) == ("env atof" in written)
    if "toml atof" in written:
        folder = workdir / ".nemo-relay"
        assert problems(folder) == []
    if "toml atif" in written:
        [document] = trajectories(workdir / ".nemo-relay").values()
        assert document["agent"]["version"] == "local"


def test_nothing_asked_for_costs_nothing(
    exporting_host: HostMaker, relay_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ATOF_ENABLED", "ATIF_ENABLED"):
        monkeypatch.setenv(PREFIX + name, "0")
    host = exporting_host("hello")
    assert host.hooks.stats() == []
    host.new_session().run("go")


@pytest.mark.parametrize("kind", ["ATOF", "ATIF"])
def test_one_kind_alone(
    exporting_host: HostMaker, relay_folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    other = "ATIF" if kind == "ATOF" else "ATOF"
    monkeypatch.delenv(f"{PREFIX}{other}_ENABLED")
    host = exporting_host("hello")
    host.new_session().run("go")
    host.close()
    assert (relay_folder / kind.lower()).exists() and not (relay_folder / other.lower()).exists()


def test_a_second_session_goes_on_in_the_same_file(
    exporting_host: HostMaker, workdir: Path, relay_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "plugins.toml").write_text(MINIMAL_TOML)
    monkeypatch.setenv(f"{PREFIX}PLUGINS_TOML", str(workdir / "plugins.toml"))
    monkeypatch.chdir(workdir)
    host = exporting_host("hello")
    for _ in range(2):
        session = host.new_session()
        session.run("go")
        session.close()
    host.close()
    assert problems(workdir / ".nemo-relay") == [] and len(trajectories(workdir / ".nemo-relay")) == 2
    lines = (workdir / ".nemo-relay" / "atof" / "events.jsonl").read_text().splitlines()
    assert sum('"category":"agent"' in line for line in lines) == 4


# -- reading ------------------------------------------------------------------------------------------------------


def test_defaults() -> None:
    found = read_settings({f"{PREFIX}ATOF_ENABLED": "1", f"{PREFIX}ATIF_ENABLED": "yes"}, Path("/desk"))
    assert found.atof == AtofFile(Path("/desk/.nemo-relay/atof"), "events.jsonl", overwrite=False)
    assert found.atif == AtifFiles(Path("/desk/.nemo-relay/atif"), "trajectory-{session_id}.json", "Hermes Agent")
    assert found.remarks == () and read_settings({}, Path("/desk")).asks_for_something is False


@pytest.mark.parametrize("value", ["1", "true", "YES", " on "])
def test_switches(value: str) -> None:
    assert read_settings({f"{PREFIX}ATOF_ENABLED": value}, Path("/")).atof is not None
    assert read_settings({f"{PREFIX}ATOF_ENABLED": f"{value}x"}, Path("/")).atof is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ATOF_MODE", "replace"),
        ("ATOF_FILENAME", "../events.jsonl"),
        ("ATIF_FILENAME_TEMPLATE", "{session_id}/{model}.json"),
        ("ATIF_FILENAME_TEMPLATE", "../{session_id}.json"),
        ("ATIF_SUBAGENT_EXPORT_MODE", "some"),
    ],
)
def test_what_makes_no_sense_is_remarked_upon_and_replaced(name: str, value: str) -> None:
    env = {f"{PREFIX}ATOF_ENABLED": "1", f"{PREFIX}ATIF_ENABLED": "1"}
    found = read_settings({**env, PREFIX + name: value}, Path("/"))
    [remark] = found.remarks
    assert name in remark and value in remark
    default = read_settings(env, Path("/"))
    assert (found.atof, found.atif) == (default.atof, default.atif)


def test_a_template_for_all_sessions_is_used_as_it_is_and_remarked_upon() -> None:
    env = {f"{PREFIX}ATIF_ENABLED": "1", f"{PREFIX}ATIF_FILENAME_TEMPLATE": "all.json"}
    found = read_settings(env, Path("/"))
    assert found.atif is not None and found.atif.template == "all.json"
    [remark] = found.remarks
    assert "each session replaces the file of the one before" in remark


@given(st.text())
def test_plain_names_stay_where_they_are(name: str) -> None:
    if name and is_plain_name(name):
        assert (Path("/folder") / name).parent == Path("/folder")


def _read(tmp_path: Path, content: str) -> Any:
    path = tmp_path / "plugins.toml"
    path.write_text(content)
    return read_plugins_toml(path, tmp_path)


def test_trajectories_are_taken_over(tmp_path: Path) -> None:
    found = _read(tmp_path, MINIMAL_TOML + '\n[[components.config.atif.storage]]\ntype = "http"\n')
    assert found.atif == AtifFiles(tmp_path / ".nemo-relay/atif", agent_version="local")
    assert "atif" not in found.document["components"][0]["config"]
    assert "storage" in found.remarks[0]


def test_translation_there_and_back(tmp_path: Path) -> None:
    document = _read(tmp_path, NO_ATIF).document
    new = translated(document, 4)
    config = new["components"][0]["config"]
    file = {"output_directory": str(tmp_path / ".nemo-relay/atof"), "filename": "events.jsonl", "mode": "overwrite"}
    assert config == {"version": 4, "atof": {"enabled": True, "sinks": [{"type": "file", **file}]}}
    assert translated(new, 1) == document
    asked: list[tuple[Path, str]] = []

    def choose(folder: Path, filename: str) -> str:
        asked.append((folder, filename))
        return "other.jsonl"

    for one, again in ((new, False), (document, False), (new, True)):
        atof = with_files(one, choose, again=again)["components"][0]["config"]["atof"]
        table = atof["sinks"][0] if one is new else atof
        assert (table["filename"], table["mode"]) == ("other.jsonl", "append" if again else "overwrite")
    assert asked == [(tmp_path / ".nemo-relay/atof", "events.jsonl")] * 3
    assert config["atof"]["sinks"][0] == {"type": "file", **file}


def test_endpoints_are_translated(tmp_path: Path) -> None:
    content = """
[[components]]
kind = "observability"
[components.config]
version = 1
[components.config.opentelemetry]
enabled = true
endpoint = "http://localhost:4318/v1/traces"
service_name = "hermes"
[components.config.openinference]
enabled = true
endpoint = "http://localhost:6006/v1/traces"
"""
    found = _read(tmp_path, content)
    assert found.has_endpoints
    new = translated(found.document, 4)
    assert new["components"][0]["config"] == {
        "version": 4,
        "opentelemetry": {
            "enabled": True,
            "endpoints": [
                {"type": "full", "endpoint": "http://localhost:4318/v1/traces", "service_name": "hermes"},
                {"type": "openinference", "endpoint": "http://localhost:6006/v1/traces"},
            ],
        },
    }
    if VERSION >= (0, 7):
        from hermes.bundled.observability.nemo_relay.relay import Relay

        assert [one for one in Relay().diagnostics(new) if one["level"] == "error"] == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x = ", b"components = 1", b"components = [1]"])
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plugins.toml"
    path.write_bytes(content)
    with pytest.raises(PluginsTomlError, match=r"plugins\.toml"):
        read_plugins_toml(path, tmp_path)
    with pytest.raises(PluginsTomlError, match="cannot be read"):
        read_plugins_toml(tmp_path / "none.toml", tmp_path)
