"""Questions with a durable answer: stored before they are shown, answered in the journal before the answer counts."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from hermes.agent.approvals.messages import why
from hermes.agent.approvals.owed import OwedAnswer, is_observed
from hermes.base.errors import JournalError, TurnSuspended
from hermes.base.scope import new_id
from hermes.contract.events import ApprovalRequested
from hermes.hooks.table import Hooks
from hermes.journal.questions import QuestionRow, Questions, abridged
from hermes.tools.registry import Args, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.policy import Finding

#: The answer of a model that has none; the question stays open.
UNSURE = "smart_unsure"

#: What is shown of a call that is no command.
_MAX_CALL_CHARS = 2_000
_MAX_DIFF_CHARS = 6_000


class GivenAnswer(NamedTuple):
    """The answer to a question that was asked."""

    answer: str
    reason: str = ""
    #: Who gave it, where that is known.
    by: str = ""


class StoredQuestion:
    """Asks one party after another until there is an answer. ``earlier`` is the row of a run that was cut off."""

    def __init__(self, questions: Questions, row: QuestionRow, earlier: QuestionRow | None = None) -> None:
        self.id = row.id if earlier is None else earlier.id
        self.questions = questions
        self._row = row
        #: None until it was asked; False when there is no session that the row could belong to.
        self._is_stored: bool | None = None if earlier is None else True
        #: A question that is asked again after a restart has no longer to wait than before.
        self._deadline = None if earlier is None else earlier.deadline

    @property
    def stored_id(self) -> str:
        """The id of the row that holds the answer; empty when there is none."""
        return self.id if self._is_stored else ""

    def ask(self, surface: str, ask: Callable[[], GivenAnswer], announced: str = "") -> GivenAnswer:
        """Ask there. Another party may have answered first: then that answer counts.

        ``announced`` is what plugins are told of where that is.
        """
        if self._is_stored:
            self.questions.ask_again(self.id, surface, announced)
        elif self._is_stored is None:
            self._is_stored = self.questions.ask(replace(self._row, surface=surface, announced=announced))
        try:
            return self._store_answer(ask())
        except TurnSuspended as suspended:
            if self._is_stored:
                self.questions.defer(self.id, self._deadline or suspended.deadline)
            raise
        except BaseException as error:
            with contextlib.suppress(JournalError):
                self.withdraw(f"cut off: {type(error).__name__}")
            raise

    def withdraw(self, reason: str) -> None:
        """Close the question without an answer."""
        if self._is_stored:
            self.questions.withdraw(self.id, reason)

    def _store_answer(self, given: GivenAnswer) -> GivenAnswer:
        if given.answer == UNSURE or not self._is_stored:
            return given
        row = self.questions.answer(self.id, given.answer, given.reason, by=given.by)
        return GivenAnswer("deny" if row.answer is None else row.answer, row.reason, row.answered_by)


class ApprovalQuestion:
    """The question whether a call may run, with the approval hooks around each time it is asked."""

    def __init__(
        self,
        tool: Tool,
        args: Args,
        context: ToolContext,
        command: str | None,
        findings: tuple[Finding, ...],
        owed: OwedAnswer,
        changed_by: Sequence[str] = (),
    ) -> None:
        self.tool = tool.name
        self.args = args
        self.scope = context.scope
        #: The step it belongs to; empty for a call that a plugin makes.
        self.key = context.key
        self.digest = call_digest(tool.name, args)
        #: The call as it is shown: the command, the diff of an edit, or the tool with its arguments.
        self.subject = (
            command if command is not None else _shown_edit(tool, args, context) or _shown_call(tool.name, args)
        )
        self.findings = findings
        #: The plugins that changed the arguments.
        self._changed_by = tuple(dict.fromkeys(changed_by))
        #: What plugins were told of a question about this call.
        self.owed = owed
        self._stored: StoredQuestion | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that made approval necessary, each once."""
        return tuple(dict.fromkeys(finding.rule for finding in self.findings))

    @property
    def description(self) -> str:
        """Why approval is needed, in one line, and which plugins changed what is asked about."""
        reason = why(self.findings)
        return f"{reason} (changed by {', '.join(self._changed_by)})" if self._changed_by else reason

    @property
    def approval_id(self) -> str:
        """The id of the row that holds the answer; empty when there is none."""
        return "" if self._stored is None else self._stored.stored_id

    def drop_approved(self, rules: Set[str]) -> None:
        """Leave out what needs no approval because these rules are approved already."""
        self.findings = tuple(finding for finding in self.findings if finding.rule not in rules)

    def open(self, questions: Questions) -> QuestionRow | None:
        """Prepare to ask. Returns the answered row when an earlier run of the step has an answer that still counts."""
        scope, earlier = self.scope, None
        if self.key:
            step = {"session_id": scope.session_id, "turn_id": scope.turn_id, "key": self.key, "digest": self.digest}
            earlier = questions.find(**step)
        if earlier is not None and earlier.state != "pending":
            return earlier
        row = QuestionRow(
            id=new_id("appr_")[:17],
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            key=self.key or scope.tool_call_id,
            tool=self.tool,
            digest=self.digest,
            subject=self.subject,
            rules=self.rules,
            description=self.description,
        )
        self._stored = StoredQuestion(questions, row, earlier)
        return None

    def ask(
        self, hooks: Hooks, surface: str, ask: Callable[[str], GivenAnswer], *, command: str, shown_at: str = ""
    ) -> GivenAnswer:
        """Ask there, with the id of the question. ``shown_at`` is where it waits, when that is elsewhere.

        ``post_approval_response`` follows on every way out. When the answer comes later it is owed until then.
        """
        stored, owed = self._stored, self.owed
        assert stored is not None, "open the question before it is asked"
        requested = self._event(surface, command)

        def announce_and_ask() -> GivenAnswer:
            owed.announce(hooks, stored.questions, stored.id, requested)
            return ask(stored.id)

        try:
            given = stored.ask(shown_at or surface, announce_and_ask, surface if is_observed(hooks) else "")
        except TurnSuspended:
            raise
        except BaseException:
            owed.tell(hooks, stored.questions, "deny")
            raise
        owed.tell(hooks, stored.questions, given.answer, given.by)
        return given

    def withdraw(self, reason: str) -> None:
        """Close the question without an answer."""
        if self._stored is not None:
            self._stored.withdraw(reason)

    def _event(self, surface: str, command: str) -> ApprovalRequested:
        scope = self.scope
        return ApprovalRequested(
            command=command,
            description=self.description,
            pattern_key=self.rules[0],
            pattern_keys=list(self.rules),
            session_key=scope.session_id,
            surface=surface,
            **scope.ids("tool_call_id"),
        )


def _shown_edit(tool: Tool, args: Args, context: ToolContext) -> str:
    if tool.preview is None:
        return ""
    try:
        diff = tool.preview(args, context)
    except Exception:  # the question must be asked all the same
        return ""
    return abridged(diff, _MAX_DIFF_CHARS, "")


def _shown_call(tool: str, args: Args) -> str:
    text = f"{tool} {_encoded(args).decode('utf-8', 'replace')}"
    return abridged(text, _MAX_CALL_CHARS, "")


def call_digest(tool: str, args: Args) -> str:
    """A digest that differs between any two different calls."""
    return hashlib.sha256(_encoded([tool, args])).hexdigest()


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:
        return repr(value).encode("utf-8", "surrogatepass")
