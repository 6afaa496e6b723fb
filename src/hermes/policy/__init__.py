"""Command policy: static analysis of shell commands. Depends on no other package of Hermes.

The names are imported at their first use: a run that only reads files needs to know paths, and no parser or rules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.policy.judge import judge_command
    from hermes.policy.rules import ALL_RULES, Rule
    from hermes.policy.verdict import Decision, Finding, Verdict

__all__ = ["ALL_RULES", "Decision", "Finding", "Rule", "Verdict", "judge_command"]

_MODULES = {
    "judge_command": "judge",
    **dict.fromkeys(("ALL_RULES", "Rule"), "rules"),
    **dict.fromkeys(("Decision", "Finding", "Verdict"), "verdict"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hermes.policy.{_MODULES[name]}"), name)
