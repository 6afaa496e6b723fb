"""Verdict: the column of the table that a trial belongs to, with the reason."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hermes.plugins.compat.names import ROOTS
from hermes.plugins.ctx.offers import SELECTED_BY

#: First words of the modules that upstream has, whether or not this host offers any of them.
HOST_ROOTS = ROOTS | {"cli", "hermes_logging", "toolsets", "tui_gateway"}

WORKS = "does its job"
LOADS = "loads"
NETWORK = "needs network, key or settings"
PACKAGE = "needs a package or program"
BROKEN = "broken itself"
OURS = "fails because of us"

#: The columns, from the best to the worst.
VERDICTS = (WORKS, LOADS, NETWORK, PACKAGE, BROKEN, OURS)

#: What a plugin offers in order to reach something outside of this machine.
_REACHES_OUT = {"dashboard_auth_provider", "model_provider", "platform", "slack_action_handler", "web_search_provider"}
#: Hooks that upstream has and this host does not.
_HOOKS_OF_UPSTREAM = ("kanban_task_", "on_kanban_", "gateway_platform_event", "on_skill_lifecycle", "pre_transcription")

_MISSING = re.compile(r"No module named '([\w.]+)'")
_NOT_IN = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
_NO_HOOK = re.compile(r"there is no hook '([^']+)'")
#: What errors say when something outside of this machine, a secret or a setting is missing.
_OUTSIDE = re.compile(
    r"api[ _-]?key|token|credential|password|not configured|not set\b|not connected|not running|not initiali[sz]ed|"
    r"not paired|environment variable|unauthori[sz]ed|sign in|log ?in\b|connect|timed out|resolve|network|"
    r"census lets|unreachable|never became reachable|client ID|config file|settings?\b|"
    r"(?-i:missing [A-Z_]{4,}|[A-Z_]{6,} is required)",
    re.IGNORECASE,
)
_PACKAGE = re.compile(
    r"pip install|npm install|not installed|requires? the .* package|\bon PATH\b|binary not found|"
    r"No such file or directory: '[\w.-]+'|ERR_MODULE_NOT_FOUND|command not found|\binstall \w+ with",
    re.IGNORECASE,
)
_HOST = re.compile(
    rf"\b(?:{'|'.join(sorted(ROOTS))})\.[a-z_]+|PluginContext|this host|Unknown tool|HERMES_", re.IGNORECASE
)
#: The methods of ``ctx`` take what upstream's take, and more.
_OTHER_CALL = re.compile(r"PluginContext\.\w+\(\) (missing|got an unexpected)|no attribute 'register'$")
_NEWER = re.compile(r"Hermes >= ?0\.\d+")
_OF_CODE = re.compile(r"(AttributeError|TypeError|ImportError|NotImplementedError)")


class Verdict(NamedTuple):
    """One of the columns, and a few words."""

    column: str
    reason: str = ""


def judge(trial: dict[str, Any]) -> Verdict:
    """Where a trial belongs. What fails because of us counts before everything that a plugin may lack."""
    if "needs_python" in trial:
        return Verdict(PACKAGE, f"Python {trial['needs_python']}")
    if trial.get("timed_out"):
        return Verdict(OURS, "it did not end in time")
    if "host_error" in trial:
        return Verdict(OURS, str(trial["host_error"]))
    plugins: list[dict[str, Any]] = trial["plugins"]
    failed = [one for one in plugins if one["status"] == "failed"]
    if not plugins or (failed and not trial["is_loaded"]):
        if any("model provider" in text for one in failed for text in one["problems"]):
            return Verdict(OURS, failed[0]["problems"][0])
        return _of_error(failed[0]["failure"] or failed[0]["error"]) if failed else Verdict(OURS, "it was not found")
    if trial.get("status") != "completed":
        return Verdict(OURS, str(trial.get("error")))
    return _of_troubles(trial) or _of_problems(plugins) or _of_what_it_offers(trial) or Verdict(WORKS, _without(trial))


def _of_troubles(trial: dict[str, Any]) -> Verdict | None:
    """What went wrong in hooks, tools and offers; an answer that a tool gives is no trouble of its code."""
    raised = [one for one in trial["outcomes"] if "Tool execution failed" in one]
    answers = [one for one in trial["outcomes"] if one not in raised and is_refusal(one)]
    states: dict[str, str] = trial.get("offers", {})
    offers = [f"{kind}: {state}" for kind, state in states.items() if state and state != "not available"]
    found = [_of_error(one) for one in (*trial["failures"], *raised, *offers)]
    # Complaints about made-up arguments are right, and what is lacking counts where every tool lacks it.
    lacks_all = len(answers) == len(trial["outcomes"])
    judged = map(_of_error, answers)
    found += [one for one in judged if one.column == OURS or (lacks_all and one.column != BROKEN)]
    for column in (OURS, PACKAGE, NETWORK, BROKEN):
        for verdict in found:
            if verdict.column == column:
                return verdict
    # Some ask for a newer version of themselves, or report to someone, and work without an answer.
    has_answered = any(not is_refusal(one) for one in trial["outcomes"])
    return Verdict(NETWORK, ", ".join(trial["refused"])) if trial["refused"] and not has_answered else None


def is_refusal(outcome: str) -> bool:
    """Whether the answer of a tool says that something is wrong: JSON with an error, or the word for it."""
    answer = outcome.partition(": ")[2]
    return bool(re.search(r"\"error(_type)?\"\s*:\s*[\"{]|^[\w ]*\berror\b", answer, re.IGNORECASE))


def _of_problems(plugins: list[dict[str, Any]]) -> Verdict | None:
    for text in (text for one in plugins for text in one["problems"]):
        if "needs an instance of" in text:
            return Verdict(BROKEN, text)  # upstream's class is there to be extended
        hook = _NO_HOOK.search(text)
        # A hook that upstream does not have either is one that never fires there.
        if hook is None or hook[1].startswith(_HOOKS_OF_UPSTREAM):
            return Verdict(LOADS, text)
    return None


def _of_what_it_offers(trial: dict[str, Any]) -> Verdict | None:
    """For plugins of which nothing could be tried here."""
    plugins: list[dict[str, Any]] = trial["plugins"]
    offers: dict[str, str] = trial.get("offers", {})
    if not any(one["registered"] for one in plugins):
        if trial.get("missed"):
            return Verdict(OURS, f"it registers nothing without {', '.join(trial['missed'])}")
        missing = sorted({name for one in plugins for name in one["missing_env"]})
        return Verdict(NETWORK, ", ".join(missing) or "it registers nothing without its settings")
    others = sum(one["registered"] for one in plugins) - len(offers) - trial.get("tools", 0)
    if trial.get("ready") or others > 0:
        return None
    if "not available" in offers.values() or (trial.get("tools") and not offers):
        return Verdict(NETWORK, "what it registers is not ready, as its own checks say")
    unused = sorted(offers.keys() - SELECTED_BY.keys())
    if unused:
        return Verdict(LOADS, f"nothing here uses a {unused[0].replace('_', ' ')}")
    if offers and offers.keys() <= _REACHES_OUT:
        return Verdict(NETWORK, f"its {sorted(offers)[0].replace('_', ' ')} could be made, and reaches a service")
    return None


def _without(trial: dict[str, Any]) -> str:
    return f"without {', '.join(trial['missed'])}" if trial.get("missed") else ""


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
    if _NEWER.search(text):
        return Verdict(OURS, text)
    if _OTHER_CALL.search(text):
        return Verdict(BROKEN, text)
    if (_OF_CODE.search(text) or "Unknown tool" in text) and _HOST.search(text):
        return Verdict(OURS, text)
    return Verdict(NETWORK if _OUTSIDE.search(text) else BROKEN, text)
