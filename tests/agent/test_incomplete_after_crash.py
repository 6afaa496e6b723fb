"""``kill -9`` in a turn whose answer is continued, or which a budget ends: resumed, it comes to the same end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call
from support import run_hermes, write_config

#: More points than the turns have; a run that is not killed ends the search.
LAST_POINT = 60
BUDGET = "budgets: {on_limit: stop, turn: {calls: 3}}\n"


def continued(request: RecordedRequest) -> ScriptedReply:
    pieces = sum(message["role"] == "assistant" for message in request.messages)
    return text(f"{pieces} ", finish_reason="length") if pieces < 2 else text("end")


def endless(request: RecordedRequest) -> ScriptedReply:
    return tool_call("todo", {}) if "tools" in request.body else text("so far")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "extra", "answer", "codes"),
    [(continued, "", "0 1 end", {0}), (endless, BUDGET, "so far", {3})],
    ids=["continued", "budget"],
)
def test_a_turn_killed_at_any_point_ends_as_if_it_were_not(
    home: Path, workdir: Path, script: object, extra: str, answer: str, codes: set[int]
) -> None:
    killed = 0
    with ScriptedProvider(script) as provider:  # pyright: ignore[reportArgumentType]
        for point in range(1, LAST_POINT):
            own = home / str(point)
            write_config(own, provider.base_url, extra)
            run = run_hermes("chat", "-q", "go", "-Q", home=own, cwd=workdir, env={"HERMES_CRASH_AT": str(point)})
            if run.returncode in codes:
                break
            assert run.returncode == -signal.SIGKILL, run.stderr
            killed += 1
            resumed = run_hermes("chat", "--continue", "--json", home=own, cwd=workdir)
            if not resumed.stdout:
                continue  # killed before the message was on record
            document = json.loads(resumed.stdout)
            assert resumed.returncode in codes, (point, resumed.stderr)
            assert document["answer"] == answer, point
            checked = run_hermes("trace", "verify", document["session_id"], home=own, cwd=workdir)
            assert checked.returncode == 0, (point, checked.stdout + checked.stderr)
        else:
            pytest.fail("the turn has more crash points than expected")
    assert killed >= 6
