"""The approval settings: rules for tools, refused commands, and what is approved permanently."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hermes.base.config.schema.modes import DEFAULT_MODE, PermissionMode, more_careful
from hermes.base.config.schema.sections import Config, ToolRule

if TYPE_CHECKING:
    from hermes.policy import Finding

#: When several patterns speak of one tool, the first of these that one of them says counts.
_STRICTEST_FIRST: tuple[ToolRule, ...] = ("deny", "ask", "allow")


class ApprovalRules:
    """The sections ``approvals`` and ``command_allowlist`` of the configuration, ready to be asked."""

    def __init__(self, config: Config) -> None:
        settings = config.approvals
        self.asks_model_first = settings.reviewer == "model"
        self.timeout = settings.timeout
        self.headless = settings.headless
        self.cron_mode = settings.cron_mode
        #: What sessions start with.
        self.permission_mode: PermissionMode = settings.permission_mode
        self.tools = settings.tools
        self._deny = tuple(map(_one_line, settings.deny))
        self._allowed = frozenset(map(_one_line, config.command_allowlist))
        #: The list of the configuration, which shows what is approved meanwhile.
        self._listed = config.command_allowlist

    def for_callers(self) -> ApprovalRules:
        """The rules for callers: what the owner approved permanently, or runs without asking, is not theirs."""
        rules = copy(self)
        rules.permission_mode = more_careful(self.permission_mode, DEFAULT_MODE)
        rules._allowed = frozenset[str]()
        rules._listed = []
        return rules

    @property
    def refuses_commands(self) -> bool:
        """Whether any command is refused by a pattern."""
        return bool(self._deny)

    def for_tool(self, tool: str) -> ToolRule | None:
        """The rule for a tool: the one with its very name, else the strictest whose pattern matches."""
        if not self.tools:
            return None
        exact = self.tools.get(tool)
        if exact is not None:
            return exact
        found = {rule for pattern, rule in self.tools.items() if fnmatchcase(tool, pattern)}
        return next((rule for rule in _STRICTEST_FIRST if rule in found), None)

    def refusing_pattern(self, commands: Iterable[str]) -> str | None:
        """The pattern of ``approvals.deny`` that one of the commands matches, whatever its case."""
        lines = [_one_line(command).lower() for command in commands]
        return next((deny for deny in self._deny if any(fnmatchcase(line, deny.lower()) for line in lines)), None)

    def approved_by(self, finding: Finding) -> str | None:
        """The entry of ``command_allowlist`` that covers a finding: its rule, or a pattern for the part it is about.

        The part and not the whole line, because ``git push *`` must not cover what follows a semicolon.
        """
        if finding.rule in self._allowed:
            return finding.rule
        part = _one_line(finding.part)
        return next((entry for entry in self._allowed if part and fnmatchcase(part, entry)), None)

    def approve(self, rules: Iterable[str]) -> None:
        """From now on these rules need no question."""
        self._listed += [rule for rule in rules if rule not in self._listed]
        self._allowed |= frozenset(self._listed)


def _one_line(text: str) -> str:
    return " ".join(text.split())
