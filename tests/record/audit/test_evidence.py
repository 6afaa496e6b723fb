"""Sealed sessions: every altered, removed, inserted or reordered event is found, offline."""

from __future__ import annotations

import hashlib
import io
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config.schema.sections import AuditConfig
from hermes.base.errors import HermesError
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.record.audit.evidence import export_evidence, verify_evidence
from hermes.record.recording import load_recording
from hermes.record.replay.replay import recorded_config, replay
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, ScriptedReply, text, tool_call
from hermes.trace.seals import SealFile, check_signature, public_key_of, read_seals, seal_session
from support import HostFactory, run_hermes, write_config
from support.configured import configured_host

Lines = list[bytes]


@pytest.fixture
def host(make_host: HostFactory, workdir: Path) -> Host:
    (workdir / "a").write_text("secret of a")
    with ScriptedProvider([tool_call("read_file", {"path": "a"}), text("Done."), text("More.")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.title = "sealed"
        session.run("go")
        session.run("on")
    return host


@pytest.fixture
def session_id(host: Host) -> str:
    return host.sessions.list()[0].id


@pytest.fixture
def evidence(host: Host, session_id: str) -> bytes:
    return export_evidence(host.store, session_id, [])


def closed(lines: Lines) -> bytes:
    """The lines with a new digest at their end, as a forger would write it."""
    body = b"".join(line + b"\n" for line in lines)
    return body + msgspec.json.encode({"sha256": hashlib.sha256(body).hexdigest()}) + b"\n"


def event_lines(evidence: bytes) -> tuple[Lines, list[int]]:
    lines = evidence.split(b"\n")[:-2]
    return lines, [at for at, line in enumerate(lines) if line.startswith(b'{"event"')]


def test_a_whole_export_is_valid(evidence: bytes, session_id: str) -> None:
    result = verify_evidence(evidence)
    assert result.problems == [] and result.session_id == session_id and result.events > 8


def _alter(lines: Lines, at: list[int]) -> None:
    lines[at[3]] = lines[at[3]].replace(b"secret of a", b"nothing in a")


def _remove(lines: Lines, at: list[int]) -> None:
    del lines[at[3]]


def _insert(lines: Lines, at: list[int]) -> None:
    lines.insert(at[3], lines[at[3]].replace(b"model:1", b"model:9"))


def _reorder(lines: Lines, at: list[int]) -> None:
    lines[at[3]], lines[at[4]] = lines[at[4]], lines[at[3]]


@pytest.mark.parametrize(
    ("forge", "problem"),
    [
        (_alter, "was altered"),
        (_remove, "event 4 was removed: number 5 follows number 3"),
        (_insert, "an event was inserted|event 4 .* was altered"),
        (_reorder, "events were reordered: number 5 is before number 4"),
    ],
)
def test_forged_events_are_named(evidence: bytes, forge: Callable[[Lines, list[int]], None], problem: str) -> None:
    lines, at = event_lines(evidence)
    forge(lines, at)
    [found] = verify_evidence(closed(lines)).problems
    assert re.search(problem, found), found


@pytest.mark.parametrize("edits", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_single_byte_edits_are_all_found(evidence: bytes, edits: int) -> None:
    chance = random.Random(20)
    unseen: list[int] = []
    for _ in range(edits):
        at, byte = chance.randrange(len(evidence)), chance.randrange(1, 256)
        edited = evidence[:at] + bytes([evidence[at] ^ byte]) + evidence[at + 1 :]
        if not verify_evidence(edited).problems:
            unseen.append(at)
    assert unseen == []


def test_redacted_exports_are_valid_and_say_nothing(host: Host, session_id: str) -> None:
    data = export_evidence(host.store, session_id, [], redact=["*"])
    result = verify_evidence(data)
    assert result.problems == [] and result.redacted == result.events
    assert b"secret of a" not in data and b"You are Hermes" not in data
    tools = export_evidence(host.store, session_id, [], redact=["tool:*"])
    assert verify_evidence(tools).problems == [] and verify_evidence(tools).redacted == 1
    assert b"You are Hermes" in tools


# -- signatures -----------------------------------------------------------------------------------------------------

needs_ssh = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and "HERMES_TEST_ALL_PROGRAMS" not in os.environ,
    reason="ssh-keygen is not installed",
)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@needs_ssh
def test_a_seal_covers_the_session_and_shows_a_cut_tail(host: Host, session_id: str, key: Path, home: Path) -> None:
    seal = seal_session(host.store, home, session_id, key)
    assert seal_session(host.store, home, session_id, key) == seal, "the same head was sealed twice"
    assert SealFile(home, session_id).read() == [seal]
    assert check_signature(seal, [public_key_of(key)]) == ""
    assert "another key" in check_signature(seal, ["ssh-ed25519 AAAA"])
    forged = msgspec.structs.replace(seal, chain="0" * 64)
    assert "does not fit" in check_signature(forged, [public_key_of(key)])
    # Without its last turn the file is consistent; the seal that was kept elsewhere shows what is gone.
    lines, at = event_lines(export_evidence(host.store, session_id, []))
    cut = closed([line for number, line in enumerate(lines) if number not in at[-3:]])
    assert verify_evidence(cut).problems == []
    assert "the end was cut off: event" in verify_evidence(cut, [seal]).problems[0]


@needs_ssh
def test_a_rewritten_chain_does_not_fit_the_seal(host: Host, session_id: str, key: Path, home: Path) -> None:
    from hermes.journal.events import chain_events

    seal = seal_session(host.store, home, session_id, key)

    def rewrite(connection: Any) -> None:
        connection.execute("UPDATE events SET at = at + 1 WHERE session_id = ? AND seq = 2", (session_id,))
        chain_events(connection, session_id)

    host.store.write(rewrite)
    data = export_evidence(host.store, session_id, [seal])
    assert "does not fit: an event up to number" in verify_evidence(data).problems[0]


@needs_ssh
def test_the_commands(
    host: Host, session_id: str, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.close()
    anchors, file = tmp_path / "anchors", tmp_path / "run.evidence"
    assert main(["audit", "seal", "--key", str(key), "--anchor", f"cat > {anchors}"]) == 0
    assert capsys.readouterr().out.startswith("sealed event ")
    assert len(read_seals(anchors)) == 1
    assert main(["audit", "export", session_id, "-o", str(file)]) == 0
    options = ["--key", f"{key}.pub", "--anchors", str(anchors)]
    assert main(["audit", "verify", str(file), *options]) == 0
    assert "sealed up to event" in capsys.readouterr().out
    assert main(["audit", "verify", session_id, *options]) == 0
    file.write_bytes(file.read_bytes().replace(b"secret of a", b"secret of b"))
    capsys.readouterr()
    assert main(["audit", "verify", str(file), *options]) == 1
    assert "was altered" in capsys.readouterr().out


@needs_ssh
def test_a_hook_command_seals_every_turn(home: Path, workdir: Path, key: Path) -> None:
    """The hook runs when the turn has ended, so that the seal covers all of it."""
    command = f"{sys.executable} -m hermes audit seal --hook --key {key}"
    entry = f"hooks:\n  on_session_end:\n    - command: {command}\n      sandbox: false\n"
    with ScriptedProvider(text("Done.")) as provider:
        write_config(home, provider.base_url, entry)
        ended = run_hermes("chat", "-Q", "--accept-hooks", "-q", "go", home=home, cwd=workdir)
    assert ended.returncode == 0, ended.stderr
    with closing(SqliteStore(home / "state.db")) as store:
        [session] = Sessions(store).list()
        [seal] = SealFile(home, session.id).read()
        assert check_signature(seal, [public_key_of(key)]) == ""
        result = verify_evidence(export_evidence(store, session.id, [seal]))
    assert result.problems == [] and seal.seq == result.events


@needs_ssh
def test_a_setting_seals_every_turn(home: Path, workdir: Path, key: Path, tmp_path: Path) -> None:
    """At the end of each turn, and also of one that failed; a replay seals nothing."""
    audit = AuditConfig(seal_key=str(key))
    with (
        ScriptedProvider([text("One."), ScriptedReply(status=400), text("Three.")]) as provider,
        configured_host(home, workdir, provider, audit=audit) as host,
    ):
        session = host.new_session()
        states = [session.run(message).status for message in ("one", "two", "three")]
        assert states == ["completed", "failed", "completed"]
        seals = SealFile(home, session.id).read()
        assert [check_signature(seal, [public_key_of(key)]) for seal in seals] == ["", "", ""]
        result = verify_evidence(export_evidence(host.store, session.id, seals))
        ends = host.store.read(
            lambda connection: connection.execute("SELECT seq FROM events WHERE kind = 'turn_ended' ORDER BY seq")
        ).fetchall()
        config = recorded_config(load_recording(host.store, session.id))
        assert config is not None and config.audit == audit
        replay(host.store, session.id, home, config)
    assert result.problems == [] and [seal.seq for seal in seals] == [seq for (seq,) in ends]
    assert SealFile(home, session.id).read() == seals


@needs_ssh
def test_a_turn_that_cannot_be_sealed_ends_all_the_same(
    home: Path, workdir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A key with a passphrase is not asked for: no terminal is there for it."""
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "passphrase", "-f", str(locked)], check=True)
    with (
        ScriptedProvider([text("One."), text("Two.")]) as provider,
        configured_host(home, workdir, provider, audit=AuditConfig(seal_key=str(locked))) as host,
    ):
        session = host.new_session()
        assert [session.run("go").answer, session.run("on").answer] == ["One.", "Two."]
    warnings = [one.message for one in caplog.records if one.levelname == "WARNING" and "is not sealed" in one.message]
    assert len(warnings) == 1 and "audit.seal_key" in warnings[0]
    assert SealFile(home, session.id).read() == []


def test_what_a_hook_command_gives_has_to_name_a_session(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host.close()
    for given in (b"", b"no JSON", b"[]", b"{}"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        assert main(["audit", "seal", "--hook"]) == 1
        assert "--hook: there is no session_id in the input" in capsys.readouterr().err


def test_without_ssh_keygen_it_says_so(
    host: Host, session_id: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("a key")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HermesError, match="ssh-keygen is not installed; it comes with OpenSSH"):
        seal_session(host.store, home, session_id, tmp_path / "key")


def test_errors_say_what_to_do(host: Host, session_id: str, home: Path, tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="there is no key"):
        seal_session(host.store, home, session_id, tmp_path / "none")
    (tmp_path / "seals").write_text("no\n")
    with pytest.raises(HermesError, match="has a line that is not a seal"):
        read_seals(tmp_path / "seals")
