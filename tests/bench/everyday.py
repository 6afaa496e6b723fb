"""Everyday tools: finding many skills, the start of a script and its calls, and the first answer to an editor."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .measure import BenchFailed
from .table import Row
from .workspace import Workspace

if TYPE_CHECKING:
    from hermes.testing import ScriptedProvider

SKILLS, SKILLS_MS = 200, 5.0
CALLS, CALL_MS, START_MS = 50, 1.0, 60.0
INITIALIZE_MS = 300.0
REPEAT = 7

_INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


def measure(workspace: Workspace) -> list[Row]:
    """Four rows, each with a budget of its own."""
    repeat = workspace.repeat or REPEAT
    return [_skills(workspace, repeat), *_scripts(workspace, repeat), _editor(workspace, repeat)]


def _skills(workspace: Workspace, repeat: int) -> Row:
    from hermes.base.config.schema.sections import SkillsConfig
    from hermes.tools.skills.skills import Skills

    home = workspace.folder / "skills"
    for number in range(SKILLS):
        place = home / "skills" / f"skill-{number}"
        place.mkdir(parents=True)
        text = f"---\nname: skill-{number}\ndescription: Does thing {number} when it is asked to.\n---\nDo it.\n"
        (place / "SKILL.md").write_text(text)
    best = float("inf")
    for _ in range(repeat + 1):  # the first one reads the files
        began = time.process_time()
        found = Skills(home, SkillsConfig()).usable(workspace.folder)
        best = min(best, time.process_time() - began)
        if len(found) != SKILLS:
            raise BenchFailed(f"{len(found)} of {SKILLS} skills were found")
    return _row(f"finding {SKILLS} known skills, CPU", best * 1e3, SKILLS_MS)


def _scripts(workspace: Workspace, repeat: int) -> list[Row]:
    from hermes.base.config.schema.sections import Config, ModelConfig
    from hermes.host import Host
    from hermes.testing import ScriptedProvider, text, tool_call

    home, folder = workspace.folder / "scripts", workspace.folder / "scripts-work"
    home.mkdir()
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    numbers = [0, *(number for _ in range(repeat) for number in (0, CALLS))]
    replies = [one for number in numbers for one in (tool_call("execute_code", {"code": _code(number)}), text("done"))]
    costs: dict[int, list[float]] = {0: [], CALLS: []}
    starts: list[float] = []
    with ScriptedProvider(replies) as provider, contextlib.ExitStack() as stack:
        config = Config(model=ModelConfig(default="m", base_url=provider.base_url), toolsets=["file", "code_execution"])
        session = stack.enter_context(Host(home, config)).new_session(cwd=folder)
        for number in numbers:
            began = time.process_time()
            session.run("go")
            costs[number].append(time.process_time() - began)
            if number == 0:
                starts.append(_duration(provider))
    call = (min(costs[CALLS]) - min(costs[0])) / CALLS * 1e3
    bare = min(_bare_python(folder) for _ in range(repeat))
    start = Row(
        *("`execute_code` with an empty script, elapsed", min(starts) * 1e3, bare * 1e3, "ms"),
        *(f"≤ {START_MS:g} ms more than Python", min(starts) * 1e3 <= bare * 1e3 + START_MS),
    )
    return [start, _row("a call of `read_file` by a script, CPU of Hermes", call, CALL_MS)]


def _code(calls: int) -> str:
    return f"from hermes_tools import read_file\nfor _ in range({calls}):\n    read_file('a.txt')\n"


def _duration(provider: ScriptedProvider) -> float:
    """The seconds that the last script took, as its result says."""
    content = [message["content"] for message in provider.requests[-1].messages if message["role"] == "tool"][-1]
    answer = json.loads(content)
    if answer["status"] != "success":
        raise BenchFailed(f"execute_code answered {content}")
    return answer["duration_seconds"]


def _bare_python(folder: Path) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], cwd=folder, check=True)
    return time.monotonic() - began


def _editor(workspace: Workspace, repeat: int) -> Row:
    import resource

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    best = float("inf")
    for _ in range(repeat):
        before = used()
        command = [sys.executable, "-m", "hermes", "acp"]
        ran = subprocess.run(command, input=_INITIALIZE, capture_output=True, cwd=workspace.folder, check=False)
        best = min(best, used() - before)
        if b'"protocolVersion":1' not in ran.stdout:
            raise BenchFailed(f"hermes acp answered {ran.stdout!r} {ran.stderr!r}")
    return _row("`hermes acp`: the answer to `initialize`, CPU of the process", best * 1e3, INITIALIZE_MS)


def _row(what: str, ours: float, most: float) -> Row:
    return Row(what, ours, None, "ms", f"≤ {most:g} ms", ours <= most)
