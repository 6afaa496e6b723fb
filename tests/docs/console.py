"""Runs the ``console`` examples of a page in a real shell against the scripted model, and compares what they print."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

from hermes.testing import ScriptedProvider
from hermes.testing.scripted.script import script_from_file

from .pages import DOCS, README, ROOT, Block, blocks

SCRIPT = DOCS / "tour.json"
#: As the pages have it; the server of a test listens wherever it finds room.
PORT = "8765"
#: As the pages have it.
HOME = "/home/you"
_NOTES = "Water the plants on Tuesday.\n"
_CONFIG = "model:\n  default: scripted\n  base_url: {base_url}\n"
_PATIENCE_SECONDS = 120.0
_END = "===end of output==="

_SESSION_ID = re.compile(r"\b\d{8}_\d{6}_[0-9a-f]{6}\b")


class Example(NamedTuple):
    """A command of a page and what the page says it prints."""

    command: str
    output: str


def examples(block: Block) -> list[Example]:
    """The commands of a block. A command goes on in the next line while that starts with ``> ``."""
    found: list[Example] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Example(line[2:], ""))
        elif found and line.startswith("> ") and not found[-1].output:
            found[-1] = Example(f"{found[-1].command}\n{line[2:]}", "")
        elif found:
            found[-1] = Example(found[-1].command, f"{found[-1].output}{line}\n")
    return found


def run_page(path: Path) -> list[tuple[Block, list[tuple[Example, str]]]]:
    """Every console block of a page, with what each of its commands really printed."""
    results: list[tuple[Block, list[tuple[Example, str]]]] = []
    with tempfile.TemporaryDirectory() as folder, _shell(Path(folder).resolve(), is_tour=path == README) as shell:
        for block in blocks(path.read_text()):
            if block.file_name:
                shell.write(block)
            elif block.language == "console":
                results.append((block, [(example, shell.run(example)) for example in examples(block)]))
    return results


def rewrite_examples(path: Path) -> bool:
    """Put what the commands print now into the page, where it differs by more than times and ids."""
    page = path.read_text()
    if "```console" not in page:
        return False
    pieces, end = list[str](), 0
    for block, ran in run_page(path):
        shown = [example.output if alike(example.output, output) else output for example, output in ran]
        texts = [_typed(example.command) + output for (example, _), output in zip(ran, shown, strict=True)]
        pieces += page[end : block.start], "".join(texts)
        end = block.end
    after = "".join(pieces) + page[end:]
    path.write_text(after)
    return after != page


def alike(expected: str, actual: str) -> bool:
    """Whether two outputs say the same, whenever and wherever they were made."""
    return shape(expected) == shape(actual)


def shape(output: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern, word in _VARYING:
        output = re.sub(pattern, word, output)
    lines = [" ".join(line.split()) for line in output.strip().splitlines()]
    for is_child, group in itertools.groupby(enumerate(lines), lambda pair: bool(_CHILD.match(pair[1]))):
        if is_child:  # children that work at the same time end in any order
            numbers, ends = zip(*group, strict=True)
            lines[numbers[0] : numbers[-1] + 1] = sorted(ends)
    return lines


_CHILD = re.compile(r"\S child \d+: ")
_VARYING = (
    (r":[0-9a-f]{32}:(?:[0-9a-f]{8}\b)?", ":TURN"),
    (_SESSION_ID.pattern, "SESSION"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:[+-]\d\d:\d\d)?", "DATE"),
    (r"\b\d\d:\d\d:\d\d\b", "CLOCK"),
    (r"\b(?:just now|\d+ min ago)", "AGO"),
    (r"\b\d+(?:\.\d+)? ?m?s\b", "TIME"),
    (r"\bpython3(?:\.\d+)?\b", "python"),
    (r"\(\d+ calls in", "(CALLS in"),
    (r"\bsha256:[0-9a-f]{64}\b", "DIGEST"),
    (r'("(?:duration\w*|\w+_at|at|first_token|seconds|ms)": ?)[\d.e-]+', r"\1NUMBER"),
    (r"\[Errno \d+\]", "[Errno]"),
    (r"\b[0-9a-f]{6}(?=  )", "ID"),
    (r"[█▒]+", "BAR"),
)


def _typed(command: str) -> str:
    return "$ " + command.replace("\n", "\n> ") + "\n"


class Shell:
    """A bash in which a page's commands run one after another."""

    def __init__(self, process: subprocess.Popen[str], home: Path, place: Path, port: str) -> None:
        self.home = home
        self._process = process
        self._place = place
        self._port = port
        #: Session ids of the page, and those that stand for them in this run.
        self._ids: dict[str, str] = {}

    def write(self, block: Block) -> None:
        """Make the file that a block shows."""
        path = block.write_below(self._place / "desk" if block.is_program else self.home)
        path.write_text(path.read_text().replace(PORT, self._port))

    def run(self, example: Example) -> str:
        """What the command prints, on stdout and stderr together."""
        command = example.command.replace(PORT, self._port)
        command = _SESSION_ID.sub(lambda found: self._ids.get(found[0], found[0]), command)
        typing, reading = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        typing.write(f"{{ {command}\n}} </dev/null 2>&1\nprintf '\\n%s\\n' '{_END}'\n")
        typing.flush()
        lines: list[str] = []
        while (line := reading.readline()) != f"{_END}\n":
            if not line:
                raise AssertionError(f"the shell ended at: {example.command}\n{''.join(lines)}")
            lines.append(line)
        output = self._as_shown("".join(lines).removesuffix("\n"))
        for shown, real in zip(_SESSION_ID.findall(example.output), _SESSION_ID.findall(output), strict=False):
            self._ids.setdefault(shown, real)
        known = {real: shown for shown, real in self._ids.items()}
        return _SESSION_ID.sub(lambda found: known.get(found[0], found[0]), output)

    def _as_shown(self, output: str) -> str:
        output = output.replace(self._port, PORT).replace(str(self._place), HOME)
        # A shell that a person sits at says only this.
        return re.sub(r"^bash: .*Killed .*$", "Killed", output, flags=re.MULTILINE)


@contextmanager
def _shell(place: Path, *, is_tour: bool) -> Generator[Shell]:
    """A shell in an empty home directory. The README sets everything up itself; other pages find it done."""
    with ScriptedProvider(script_from_file(str(SCRIPT), stepwise=True)) as provider:
        work = place / "desk"
        work.mkdir()
        home = place / ("tour" if is_tour else ".hermes")
        if not is_tour:
            (work / "notes.txt").write_text(_NOTES)
            home.mkdir()
            (home / "config.yaml").write_text(_CONFIG.format(base_url=provider.base_url))
        environment = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        environment |= {"HOME": str(place), "PATH": f"{_commands(place / 'bin')}:{os.environ['PATH']}"}
        # As where Hermes is installed, whether or not it is installed here, and without what else may be.
        environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "hermes.testing.pytest_plugin"}
        command, pipe = ["bash", "--noprofile", "--norc"], subprocess.PIPE
        with subprocess.Popen(command, cwd=work, env=environment, stdin=pipe, stdout=pipe, encoding="utf-8") as bash:
            watchdog = threading.Timer(_PATIENCE_SECONDS, bash.kill)
            watchdog.start()
            try:
                yield Shell(bash, home, place, provider.base_url.rpartition(":")[2].removesuffix("/v1"))
            finally:
                watchdog.cancel()
                cast("IO[str]", bash.stdin).close()
                bash.wait()


def _commands(folder: Path) -> Path:
    """A folder for the search path in which ``hermes`` and ``python`` are the ones under test."""
    folder.mkdir()
    for name, rest in (("python", ""), ("hermes", "-W error -m hermes ")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} {rest}"$@"\n')
        script.chmod(0o755)
    if shutil.which("rg") is None:
        # The pages show a machine that has ripgrep. This one fails, and the search goes on without it.
        (folder / "rg").write_text("#!/bin/sh\nexit 2\n")
        (folder / "rg").chmod(0o755)
    return folder
