"""Verdict: the column of the table that a trial belongs to, with the reason."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hermes.plugins.compat.names import ROOTS

#: First words of the modules that upstream has, whether or not this host offers any of them.
HOST_ROOTS = ROOTS | {"cli", "hermes_logging", "hermes_time", "model_tools", "toolsets", "tui_gateway"}

WORKS = "does its job"
LOADS = "loads"
NETWORK = "needs network or key"
PACKAGE = "needs a third-party package"
BROKEN = "broken itself"
OURS = "fails because of us"

#: The columns, from the best to the worst.
VERDICTS = (WORKS, LOADS, NETWORK, PACKAGE, BROKEN, OURS)

_MISSING = re.compile(r"No module named '([\w.]+)'")
_NOT_IN = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
#: What errors say when something outside of this machine, or a secret, is missing.
_OUTSIDE = re.compile(
    r"api[ _-]?key|token|credential|password|not configured|not set|environment variable|unauthori[sz]ed|"
    r"sign in|log in|connection|connect|timed out|resolve|network|census lets|unreachable|pip install|"
    r"not installed|requires? the",
    re.IGNORECASE,
)
_PACKAGE = re.compile(r"pip install|not installed|requires? the .* package", re.IGNORECASE)
_HOST = re.compile(rf"\b(?:{'|'.join(sorted(ROOTS))})\.[a-z_]+|PluginContext|this host|HERMES_", re.IGNORECASE)


class Verdict(NamedTuple):
    """One of the columns, and a few words."""

    column: str
    reason: str = ""


def judge(trial: dict[str, Any]) -> Verdict:
    """Where a trial belongs. What a plugin says itself about a missing key counts before what looks like our fault."""
    if trial.get("timed_out"):
        return Verdict(NETWORK, "it did not end in time")
    if "host_error" in trial:
        return Verdict(OURS, str(trial["host_error"]))
    plugins: list[dict[str, Any]] = trial["plugins"]
    failed = [one for one in plugins if one["status"] == "failed"]
    if not plugins or (failed and not trial["is_loaded"]):
        return _of_error(failed[0]["failure"] or failed[0]["error"]) if failed else Verdict(OURS, "it was not found")
    if trial.get("status") != "completed":
        return Verdict(OURS, str(trial.get("error")))
    troubles = [*trial["failures"], *(one for one in trial["outcomes"] if "Tool execution failed" in one)]
    ours = [one for one in troubles if _of_error(one).column == OURS]
    if ours:
        return Verdict(OURS, ours[0])
    problems = [text for one in plugins for text in one["problems"]]
    if trial["refused"] or any(_OUTSIDE.search(one) for one in troubles):
        return Verdict(NETWORK, ", ".join(trial["refused"]) or troubles[0])
    if troubles:
        return Verdict(BROKEN, troubles[0])
    if problems:
        return Verdict(LOADS, problems[0])
    if not any(one["registered"] for one in plugins):
        missing = sorted({name for one in plugins for name in one["missing_env"]})
        return Verdict(NETWORK if missing else LOADS, ", ".join(missing) or "it registers nothing without its settings")
    return Verdict(WORKS)


def _of_error(text: str) -> Verdict:
    text = text.strip()
    missing = _MISSING.search(text)
    if missing is not None:
        is_ours = missing[1].partition(".")[0] in HOST_ROOTS
        return Verdict(OURS if is_ours else PACKAGE, missing[1])
    absent = _NOT_IN.search(text)
    if absent is not None:
        is_ours = absent[2].partition(".")[0] in HOST_ROOTS
        return Verdict(OURS if is_ours else PACKAGE, f"{absent[2]}.{absent[1]}")
    if _PACKAGE.search(text):
        return Verdict(PACKAGE, text)
    if re.search(r"(AttributeError|TypeError|ImportError|NotImplementedError)", text) and _HOST.search(text):
        return Verdict(OURS, text)
    return Verdict(NETWORK if _OUTSIDE.search(text) else BROKEN, text)
