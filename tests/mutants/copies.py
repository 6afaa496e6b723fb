"""A copy of the source and the tests in a temporary folder, where mutants live."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from .named import KIT, Mutant

ROOT = Path(__file__).parents[2]
#: Seconds after which a mutant that hangs counts as caught.
_HANG = 600.0
#: What a run prints that came to its end, of pytest and of the kit.
COMPLETE = "[100%]"


class Verdict(NamedTuple):
    """What the tests said to a mutant."""

    caught: bool
    output: str

    @property
    def why(self) -> str:
        """The line of the output that says most."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        named = [line for line in lines if line.startswith(("FAILED", "ERROR")) or ": " in line]
        return (named or lines or ["it ended without words"])[0][:160]


class SourceCopy:
    """One copy. Only one mutant is in it at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        skip = shutil.ignore_patterns("__pycache__")
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=skip)
        for name in ("pyproject.toml", "docs", "CHANGELOG.md"):
            (folder / name).symlink_to(ROOT / name)

    @contextmanager
    def changed(self, file: str, text: str) -> Generator[None]:
        """The copy with another text in one file."""
        path = self.folder / "src" / "hermes" / file
        before = path.read_text()
        path.write_text(text)
        try:
            yield
        finally:
            path.write_text(before)

    def source(self, file: str) -> str:
        """The text of a module."""
        return (self.folder / "src" / "hermes" / file).read_text()

    def run(self, tests: str) -> Verdict:
        """Run the kit or tests on the copy as it is. A test has to fail twice: a busy machine is no reason."""
        if tests == KIT:
            return self._run([sys.executable, "-m", "tests.mutants.kit"])
        verdict = self._pytest(shlex.split(tests))
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", verdict.output, re.MULTILINE)
        return self._pytest([failed[1]]) if verdict.caught and failed else verdict

    def _pytest(self, tests: Sequence[str]) -> Verdict:
        # Coroutines that a cut-off turn leaves to the garbage collector are no failure of the test that runs then.
        unraisable = ["-W", "ignore::RuntimeWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=line", *unraisable]
        return self._run([sys.executable, "-m", "pytest", *options, *tests])

    def _run(self, command: Sequence[str]) -> Verdict:
        # No compiled files: two versions of a module may have the same size and time.
        paths = os.pathsep.join(str(self.folder / name) for name in ("src", "tests", "."))
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=_HANG, check=False
            )
        except subprocess.TimeoutExpired:
            return Verdict(True, "it hangs")
        # A mutant may end the process early with a good exit code.
        is_whole = COMPLETE in done.stdout
        return Verdict(done.returncode != 0 or not is_whole, done.stdout + done.stderr)


@contextmanager
def source_copy() -> Generator[SourceCopy]:
    """A copy that is gone afterwards."""
    with TemporaryDirectory(prefix="hermes-mutants-") as folder:
        yield SourceCopy(Path(folder))


def mutated(mutant: Mutant, source: str) -> str:
    """The source with the mutant's edit; it has to fit in exactly one place."""
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: its text occurs {source.count(mutant.old)} times in {mutant.file}")
    return source.replace(mutant.old, mutant.new)


def judge(copy: SourceCopy, mutant: Mutant) -> Verdict:
    """Whether the tests that a mutant names find it."""
    with copy.changed(mutant.file, mutated(mutant, copy.source(mutant.file))):
        return copy.run(mutant.caught_by)
