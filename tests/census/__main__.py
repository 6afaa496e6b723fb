"""``python -m tests.census FOLDER``: try every downloaded distribution of a folder, and print the table."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .distributions import Distribution, distributions
from .trial import run
from .verdict import BROKEN, LOADS, NETWORK, PACKAGE, VERDICTS, WORKS, Verdict, judge

#: Some import thousands of modules, on a machine that may have other work.
_SECONDS = 600


def main() -> int:
    """Print a line for each plugin, then how many there are of each verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.census", description=__doc__)
    parser.add_argument("folder", type=Path, help="downloaded wheels and source archives")
    parser.add_argument("--packages", type=Path, help="a folder for each distribution, with the packages that it needs")
    parser.add_argument("--trials", type=Path, help="a file for what was seen, one line of JSON for each plugin")
    parser.add_argument("--only", default="", help="a word that the names of the distributions have")
    given = parser.parse_args()
    verdicts: dict[str, Verdict] = {}
    for distribution in distributions(given.folder.resolve()):
        if given.only not in distribution.name:
            continue
        packages: Path | None = given.packages and given.packages.resolve() / distribution.name
        trial = _try(distribution, packages)
        if trial["is_plugin"]:
            if given.trials:
                with given.trials.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"name": distribution.name, **trial}) + "\n")
            verdict = verdicts[f"{distribution.name} {distribution.version}"] = judge(trial)
            sys.stdout.write(f"| {distribution.name} | {verdict.column} | {_short(verdict.reason)} |\n")
            sys.stdout.flush()
    sys.stdout.write(summary(list(verdicts.values())))
    return 0


def summary(verdicts: list[Verdict]) -> str:
    """The table of the page, and the share that the goal is about."""
    counts = Counter(one.column for one in verdicts)
    judged = [one for one in verdicts if one.column not in (NETWORK, PACKAGE, BROKEN)]
    lines = ["", "| verdict | plugins |", "| --- | --- |", *(f"| {one} | {counts[one]} |" for one in VERDICTS)]
    rest = max(len(judged), 1)
    loaded = counts[WORKS] + counts[LOADS]
    shares = f"{loaded} load ({loaded / rest:.0%}), and {counts[WORKS]} do their job ({counts[WORKS] / rest:.0%})"
    lines += ["", f"Of the {len(judged)} that need nothing else and are not broken {shares}.", ""]
    return "\n".join(lines)


def _try(distribution: Distribution, packages: Path | None) -> dict[str, Any]:
    # A copy of this process has imported the host already, and takes what a plugin does to it along when it ends.
    processes = get_context("fork")
    answer, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=run, args=(distribution.file, packages, sender), daemon=True)
    process.start()
    sender.close()
    try:
        if answer.poll(_SECONDS):
            return answer.recv()
        return {"is_plugin": True, "timed_out": True}
    except EOFError:
        return {"is_plugin": True, "host_error": "its process ended"}
    finally:
        process.kill()
        process.join()
        answer.close()


def _short(text: str) -> str:
    line = " ".join(text.replace("|", "/").split())
    return line if len(line) <= 110 else f"{line[:107]}..."


if __name__ == "__main__":
    sys.exit(main())
