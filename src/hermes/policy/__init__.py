"""Command policy: static analysis of shell commands. Depends on no other package of Hermes."""

from __future__ import annotations

from hermes.policy.judge import judge_command
from hermes.policy.rules import ALL_RULES, Rule
from hermes.policy.verdict import Decision, Finding, Verdict

__all__ = ["ALL_RULES", "Decision", "Finding", "Rule", "Verdict", "judge_command"]
