"""What came from outside when a run was recorded: windows that servers told, other places, locales and languages."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import Config
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.plugins.context import PluginContext
from hermes.record.bundle import write_bundle
from hermes.record.compare import difference_lines
from hermes.record.recording import Recording, load_recording
from hermes.record.replay.replay import ReplayResult, recorded_config, replay
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, text, tool_call
from models.test_windows import LONG, host_at, telling
from support import HostFactory, write_config
from support.configured import write_plugin
from support.small_disk import small_disk


def again(home: Path, session_id: str, other: Path) -> tuple[ReplayResult, Recording]:
    with closing(SqliteStore(home / "state.db")) as store:
        recording = load_recording(store, session_id)
        settings = recorded_config(recording) or Config()
        return replay(store, session_id, other, settings), recording


def shown(result: ReplayResult) -> list[str]:
    return [line for one in result.differences for line in difference_lines(one)]


def test_a_window_that_the_server_told_is_taken_from_the_record(home: Path, workdir: Path, tmp_path: Path) -> None:
    with telling({"id": "m", "max_model_len": 10_000}) as server, host_at(home, workdir, server) as host:
        session = host.new_session()
        for _ in range(4):
            session.run(LONG)
    result, recording = again(home, session.id, tmp_path / "elsewhere")
    steps = [key for turn in recording.turns for key in turn.steps]
    assert any(key.startswith("compact:") for key in steps), "the window is too large for this test"
    assert steps.count("window:1") == 1, steps
    assert shown(result) == []


KILLER = """
import os, signal

def register(ctx):
    ctx.register_hook("pre_llm_call", lambda **_: os.kill(os.getpid(), signal.SIGINT))
"""


def test_ctrl_c_ends_a_replay_and_leaves_nothing(
    make_host: HostFactory,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ScriptedProvider([text("One."), text("Two.")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("first")
        session.run("second")
        host.close()
        write_plugin(home, "killer", KILLER)
        write_config(home, provider.base_url, "plugins:\n  enabled: [killer]\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("hermes.record.replay.replay._MEMORY", scratch)
    assert main(["replay", session.id]) == 130
    assert capsys.readouterr().out == "", "an interrupted replay is no difference"
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("full", ["temporary", "output"])
def test_a_full_disk_is_named_and_no_half_file_is_left(
    full: str,
    make_host: HostFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ScriptedProvider(text("x" * 300_000)) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        host.close()
    disk, bundle = tmp_path / "disk", tmp_path / "run.bundle"
    with small_disk(disk, "64k"):
        if full == "temporary":
            assert main(["sessions", "export", session.id, "--bundle", str(bundle)]) == 0
            monkeypatch.setattr("tempfile.tempdir", str(disk))
            assert main(["replay", str(bundle)]) == 1
        else:
            for command in (
                ["sessions", "export", session.id, "--bundle", str(disk / "run.bundle")],
                ["audit", "export", session.id, "-o", str(disk / "run.evidence")],
                ["test", "add", session.id, "--folder", str(disk)],
            ):
                assert main(command) == 1, command
        said = capsys.readouterr().err
        assert said.lower().count("no space left") == (1 if full == "temporary" else 3), said
        assert list(disk.iterdir()) == []


class Telling:
    """A plugin that adds what is in the environment to every message."""

    name = "telling"

    @staticmethod
    def register(ctx: PluginContext) -> None:
        def tell(**_: Any) -> dict[str, str]:
            return {"context": f"The word is {os.environ['ELSEWHERE_TOKEN']}."}

        ctx.register_hook("pre_llm_call", tell)


def test_secrets_of_the_other_home_have_no_part_in_it(
    make_host: HostFactory, home: Path, workdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is a secret there may be a word here; what a plugin there adds is not shown."""
    with ScriptedProvider(text("The colour is Heliotrope-77-Ultra.")) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("What colour?")
        host.close()
    monkeypatch.setenv("ELSEWHERE_TOKEN", "Heliotrope-77-Ultra")
    result, recording = again(home, session.id, tmp_path / "elsewhere")
    assert shown(result) == []
    with closing(SqliteStore(home / "state.db")) as store:
        config = recorded_config(recording) or Config()
        result = replay(store, session.id, tmp_path / "elsewhere", config, plugin_objects=[Telling])
    lines = "\n".join(shown(result))
    assert "The word is <redacted:ELSEWHERE_TOKEN>." in lines and "Heliotrope" not in lines


@pytest.mark.parametrize(
    "variables", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo"}]
)
def test_a_bundle_is_replayed_in_another_locale(
    variables: dict[str, str], make_host: HostFactory, workdir: Path, tmp_path: Path
) -> None:
    """Text of every alphabet, where files are not read as UTF-8 by themselves, and in a language with another i."""
    (workdir / "große Îles.txt").write_text("naïve İstanbul iI 日本語 🙂\n", "utf-8")
    script = [tool_call("read_file", {"path": "große Îles.txt"}), text("Es heißt 日本語 İ.")]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("Was steht da? iİ")
        bundle = tmp_path / "run.bundle"
        bundle.write_text(write_bundle(host.store, session.id), "utf-8")
        host.close()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    environment |= {"HERMES_HOME": str(tmp_path / "elsewhere"), "PYTHONCOERCECLOCALE": "0", **variables}
    command = [sys.executable, "-m", "hermes", "replay", str(bundle)]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, b"identical (1 turn, 2 model steps)\n"), ended.stderr
