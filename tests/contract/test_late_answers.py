"""Approvals that are answered later, on every surface: what fires is what the delivery table says.

The MCP server and the editor have no answers after a restart, because their questions belong to an open call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.contract.values import APPROVAL_SURFACES
from hermes.testing import EventRecorder, ScriptedProvider, by_step, text, tool_call
from support import run_hermes
from support.approval_rig import RISKY
from support.call_surfaces import CALL_SURFACES
from support.delivery import EXPECTED
from support.late_surfaces import LATE_SURFACES, LateSurface, OnApiStream, open_question

#: What the surfaces themselves fire besides: messages and commands of chats. Streams are counted elsewhere.
_OF_SURFACES = ("pre_gateway_dispatch", "pre_command")


@pytest.fixture
def provider() -> Generator[ScriptedProvider]:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        yield provider


def _compare(recorder: EventRecorder, name: str, surface: str, choice: str, by: str | None) -> None:
    fired = Counter(site for site in recorder.names(middleware=True) if site not in _OF_SURFACES)
    expected = {site: count for site, count in EXPECTED[name].items() if count and not site.startswith("on_stream")}
    assert dict(fired) == expected
    if name == "answered after a restart":  # each process ends what it has of the session
        assert recorder.pairs_unbalanced() == recorder.contract_violations() == []
    else:
        assert recorder.breaches() == []
    [asked], [answered] = recorder.of("pre_approval_request"), recorder.of("post_approval_response")
    assert {field: answered[field] for field in asked} == asked
    assert surface in APPROVAL_SURFACES
    assert (answered["surface"], answered["choice"], answered.get("decided_by")) == (surface, choice, by)
    ids = [call["tool_call_id"] for call in recorder.of("pre_tool_call")]
    assert len(ids) == 1 and answered["tool_call_id"] == ids[0]


_ALL = (*LATE_SURFACES, *CALL_SURFACES)


@pytest.mark.parametrize("where", _ALL)
def test_answered_later(home: Path, workdir: Path, provider: ScriptedProvider, where: type[LateSurface]) -> None:
    surface, recorder = where(home, workdir, provider), EventRecorder()
    with surface.serving() as host:
        recorder.attach(host.hooks)
        surface.begin()
        question = open_question(host, surface)
        assert recorder.of("post_tool_call") == recorder.of("on_session_end") == []
        surface.answer(question)
        recorder.wait_for("on_session_end")
    _compare(recorder, "answered later", where.surface, "once", where.answerer)
    assert (workdir / "ran").exists()


@pytest.mark.parametrize("where", [one for one in _ALL if one.is_answered_elsewhere])
def test_answered_later_with_the_command(
    home: Path, workdir: Path, provider: ScriptedProvider, where: type[LateSurface]
) -> None:
    surface, recorder = where(home, workdir, provider), EventRecorder()
    with surface.serving() as host:
        recorder.attach(host.hooks)
        surface.begin()
        answered = run_hermes("approvals", "approve", open_question(host, surface).id, home=home, cwd=workdir)
        assert answered.returncode == 0, answered.stderr
        recorder.wait_for("on_session_end")
    _compare(recorder, "answered later", where.surface, "once", "owner")


@pytest.mark.parametrize("where", LATE_SURFACES)
def test_answered_after_a_restart(
    home: Path, workdir: Path, provider: ScriptedProvider, where: type[LateSurface]
) -> None:
    surface, recorder = where(home, workdir, provider), EventRecorder()
    with surface.serving() as host:
        recorder.attach(host.hooks)
        surface.begin()
        question = open_question(host, surface)
    assert recorder.of("on_session_end") == []
    with surface.serving() as host:
        recorder.attach(host.hooks)
        surface.answer(question)
        recorder.wait_for("on_session_end")
    _compare(recorder, "answered after a restart", where.surface, "once", where.answerer)


@pytest.mark.parametrize("where", [one for one in _ALL if one.has_timeout])
def test_timed_out(home: Path, workdir: Path, provider: ScriptedProvider, where: type[LateSurface]) -> None:
    surface, recorder = where(home, workdir, provider), EventRecorder()
    with surface.serving(seconds=0.2) as host:
        recorder.attach(host.hooks)
        surface.begin()
        recorder.wait_for("on_session_end")
    _compare(recorder, "timed out", where.surface, "timeout", None)
    assert not (workdir / "ran").exists()


@pytest.mark.parametrize("where", [*_ALL, OnApiStream])
def test_stopped_or_left(home: Path, workdir: Path, provider: ScriptedProvider, where: type[LateSurface]) -> None:
    surface, recorder = where(home, workdir, provider), EventRecorder()
    with surface.serving() as host:
        recorder.attach(host.hooks)
        surface.begin()
        open_question(host, surface)
        surface.leave()
        recorder.wait_for("on_session_end")
    _compare(recorder, "client gone", where.surface, "deny", None)
    [ended] = recorder.of("on_session_end")
    assert ended["interrupted"]


@pytest.mark.parametrize("where", CALL_SURFACES)
def test_a_server_that_ends_withdraws_the_question_of_an_open_call(
    home: Path, workdir: Path, provider: ScriptedProvider, where: type[LateSurface]
) -> None:
    surface, recorder = where(home, workdir, provider), EventRecorder()
    with surface.serving() as host:
        recorder.attach(host.hooks)
        surface.begin()
        open_question(host, surface)
    recorder.wait_for("on_session_end")
    _compare(recorder, "client gone", where.surface, "deny", None)
