"""Permission modes: how much of a session's work runs without asking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from hermes.base.config.schema.modes import DEFAULT_MODE, MODES, STEPPED, UNASKED_MODE, PermissionMode

if TYPE_CHECKING:
    from hermes.policy import Finding

#: What a call does, as far as the modes tell calls apart.
CallEffect = Literal[
    "read", "edit-inside", "edit-outside", "read-only-command", "command", "plugin-tool", "own-tool", "input"
]

#: The rule for edits outside of the working folder; the policy has it for commands.
WRITE_OUTSIDE = "write-outside"

#: The rule by which a user is asked about a command that is to run without its sandbox.
OUTSIDE_SANDBOX = "outside-sandbox"

#: The rule by which a user is asked to keep what a sandboxed command did to files that run code by themselves.
KEEP_CHANGE = "keep-change"

#: What these find happens outside of a sandbox, or is about the agent itself.
_LEAVES_SANDBOX = frozenset(
    {
        OUTSIDE_SANDBOX,
        "git-force-push",
        "git-delete-repository",
        "destroy-resources",
        "http-delete",
        "grant-admin",
        "skip-review",
        "publish-package",
        "send-credentials",
        "read-credentials",
        "read-env-file",
        "network-shell",
        "own-runtime",
        "write-hermes-config",
        "stop-container",
        "container-host-access",
        "sql-drop",
        "sql-delete-all",
        "sql-update-all",
        "sql-rights",
        "wrapped-command",
        "unreadable",
        "hidden-text",
        "write-autorun",
        "write-credentials",
        "write-ssh",
        "write-shell-startup",
        "write-env-file",
        "write-system-config",
    }
)


def refuses(mode: PermissionMode, effect: CallEffect) -> bool:
    """Whether the mode refuses such a call, whatever its findings."""
    return MODES[mode].only_reads and effect in ("edit-inside", "edit-outside", "command", "plugin-tool", "input")


def asked(
    mode: PermissionMode, effect: CallEffect, findings: Sequence[Finding], *, is_sandboxed: bool
) -> tuple[Finding, ...]:
    """The findings that the mode asks about. One that trusts a sandbox which is not there is the default mode."""
    traits = MODES[mode]
    if traits.never_asks:
        return ()
    in_sandbox = is_sandboxed and effect in ("command", "read-only-command", "input")
    if in_sandbox and traits.trusts_sandbox:
        return tuple(finding for finding in findings if finding.rule in _LEAVES_SANDBOX or ":" in finding.rule)
    # In a sandbox nothing outside can be written, and to let a command out of it is a question of its own.
    leaves_it = any(finding.rule == OUTSIDE_SANDBOX for finding in findings)
    if traits.edits_outside or in_sandbox or leaves_it:
        return tuple(finding for finding in findings if finding.rule != WRITE_OUTSIDE)
    return tuple(findings)


class SessionModes:
    """The mode of each session of a host. Thread-safe: a session's mode is one dictionary entry."""

    def __init__(
        self,
        default: PermissionMode = DEFAULT_MODE,
        *,
        chosen: PermissionMode | None = None,
        store: Callable[[str, PermissionMode], None] = lambda _session_id, _mode: None,
    ) -> None:
        """``chosen``: the user chose it for every session of this run. ``store`` keeps the choice with a session."""
        self.default: PermissionMode = chosen or default
        self._chosen: PermissionMode | None = chosen
        self._store = store
        self._of: dict[str, PermissionMode] = {}

    def of(self, session_id: str) -> PermissionMode:
        """The mode of a session."""
        return self._of.get(session_id, self.default)

    def chosen(self, session_id: str) -> PermissionMode | Literal[""]:
        """The mode that the user chose for a session; empty when it has that of the settings, or of this run alone."""
        return self._of.get(session_id) or self._chosen or ""

    def set(self, session_id: str, mode: PermissionMode) -> PermissionMode:
        """Change the mode of a session from its next call on, and keep it with the session. Returns it."""
        self._of[session_id] = mode
        self._store(session_id, mode)
        return mode

    def inherit(self, session_id: str, mode: PermissionMode) -> None:
        """Give a child agent its mode."""
        self._of[session_id] = mode

    def resume(self, session_id: str, stored: str) -> None:
        """Take up a session with the mode that is stored with it, unless this run has one for every session."""
        if self._chosen is not None:
            if self._chosen != stored:
                self.set(session_id, self._chosen)
        elif self.default != UNASKED_MODE and session_id not in self._of:
            self._of.update((session_id, mode) for mode in MODES if mode == stored)

    def without_yolo(self, session_id: str) -> PermissionMode:
        """Have a session ask again; returns its mode now."""
        return self.set(session_id, DEFAULT_MODE if self.default == UNASKED_MODE else self.default)

    def step(self, session_id: str) -> PermissionMode:
        """The next mode in order; returns it."""
        now = self.of(session_id)
        at = STEPPED.index(now) + 1 if now in STEPPED else 0
        return self.set(session_id, STEPPED[at % len(STEPPED)])
