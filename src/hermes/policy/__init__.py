"""What a shell command would do: pure functions from command to verdict."""

from __future__ import annotations

from hermes.policy.judge import judge_command
from hermes.policy.rules import ALL_RULES, Rule
from hermes.policy.verdict import Decision, Finding, Verdict

__all__ = ["ALL_RULES", "Decision", "Finding", "Rule", "Verdict", "judge_command"]
