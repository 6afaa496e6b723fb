"""Bundles and evidence that were written by hand, with digests that fit: a clear error, or an ordinary result."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig
from hermes.base.errors import HermesError
from hermes.host import Host
from hermes.record.audit.evidence import export_evidence, verify_evidence
from hermes.record.bundle import open_bundle, write_bundle
from hermes.record.compare import compare_recordings, difference_lines
from hermes.record.recording import load_recording, totals_of
from hermes.record.replay.replay import recorded_config, replay
from hermes.testing import ScriptedProvider, text, tool_call, tool_calls

WRONG: tuple[Any, ...] = (None, True, 0, -1, 1.5, 2**70, "", "x", "\x00", [], {}, [1], {"a": 1}, "tool:1.0", "9" * 400)
#: Steps into the JSON that a text holds.
INSIDE = "$json"
Path_ = tuple[str | int, ...]
#: A line, a part of it, what it becomes, and whether it is left out instead.
Choices = tuple[int, int, int, bool]
CHOICES = st.tuples(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, len(WRONG) - 1), st.booleans())


def places(value: Any, path: Path_ = ()) -> list[Path_]:
    """The paths to every part of a document, texts that hold JSON included."""
    found = [path] if path else []
    if isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            found += places(item, (*path, name))
    elif isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            found += places(item, (*path, at))
    elif isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            found += places(json.loads(value), (*path, INSIDE))[1:]
    return found


def changed(value: Any, path: Path_, new: Any, *, drop: bool) -> Any:
    """A copy of the document with one part replaced or left out."""
    first, rest = path[0], path[1:]
    if first == INSIDE:
        return json.dumps(changed(json.loads(value), rest, new, drop=drop), separators=(",", ":"))
    copy = value.copy()
    if rest:
        copy[first] = changed(copy[first], rest, new, drop=drop)
    elif drop:
        del copy[first]
    else:
        copy[first] = new
    return copy


def edited(lines: list[str], choices: Choices) -> list[str]:
    """The lines with one part of one of them changed, and a blob's new digest wherever it is named."""
    line, place, new, drop = choices
    at = line % len(lines)
    before = json.loads(lines[at])
    found = places(before)
    document = changed(before, found[place % len(found)], WRONG[new], drop=drop)
    result = list(lines)
    if isinstance(document.get("data"), str) and document.get("blob") == before.get("blob"):
        digest = hashlib.sha256(document["data"].encode()).hexdigest()
        result = [one.replace(before["blob"], digest) for one in result]
        document["blob"] = digest
    result[at] = json.dumps(document, separators=(",", ":"))
    return result


def closed(lines: list[str]) -> bytes:
    body = "".join(f"{line}\n" for line in lines).encode()
    return body + b'{"sha256":"%s"}\n' % hashlib.sha256(body).hexdigest().encode()


class Files(NamedTuple):
    """The lines of a bundle and of evidence of one session, without their ends, and a folder."""

    bundle: list[str]
    evidence: list[str]
    folder: Path

    def __repr__(self) -> str:
        return "Files"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The lines of a bundle and of evidence of one session, without their ends, and a folder."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "a").write_text("a")
    script = [
        tool_calls([("read_file", {"path": "a"}), ("terminal", {"command": "echo x"})]),
        *(text("One."), tool_call("delegate_task", {"goal": "look"}), text("Looked."), text("Two.")),
    ]
    with ScriptedProvider(script) as provider:
        model = ModelConfig(provider="custom", base_url=provider.base_url, api_key="key", default="scripted")
        config = Config(model=model, agent=AgentConfig(api_max_retries=0))
        with Host(folder / "home", config, cwd=folder, env={}) as host:
            session = host.new_session()
            session.run("first")
            session.run("second")
            bundle = write_bundle(host.store, session.id).splitlines()[:-1]
            evidence = export_evidence(host.store, session.id, []).decode().splitlines()[:-1]
    return Files(bundle, evidence, folder)


def check_bundle(files: Files, choices: Choices) -> None:
    lines, _, folder = files
    path = folder / "changed.bundle"
    path.write_bytes(closed(edited(lines, choices)))
    with suppress(HermesError), open_bundle(path) as (store, session_id):
        recording = load_recording(store, session_id)
        totals_of(recording)
        assert compare_recordings(recording, recording) == []
        result = replay(store, session_id, folder / "elsewhere", recorded_config(recording) or Config())
        for difference in result.differences:
            difference_lines(difference)


SHARED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


@settings(max_examples=40, deadline=None, suppress_health_check=SHARED)
@given(choices=CHOICES)
def test_a_bundle_with_a_wrong_part_and_a_digest_that_fits(files: Files, choices: Choices) -> None:
    check_bundle(files, choices)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=SHARED)
@given(choices=CHOICES)
def test_many_bundles_with_a_wrong_part(files: Files, choices: Choices) -> None:
    check_bundle(files, choices)


@settings(max_examples=150, deadline=None, suppress_health_check=SHARED)
@given(choices=CHOICES)
def test_evidence_with_a_wrong_part_and_a_digest_that_fits(files: Files, choices: Choices) -> None:
    """No event can be changed; the head says what the file is, and has no part in the chain but the session's id."""
    _, lines, _ = files
    now = edited(lines, choices)
    result = verify_evidence(closed(now))
    if [json.loads(line) for line in now[1:]] != [json.loads(line) for line in lines[1:]]:
        assert result.problems != []
