"""One tool invocation, in three stages: the only way any tool runs.

``prepare`` decides whether the call may run and with which arguments, ``execute`` runs it, ``finish`` emits its
end and gives the text the model sees. A batch prepares its calls one after another, executes them together and
finishes each as it ends.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hermes.agent.approvals.assessment import Decision
from hermes.agent.approvals.gate import plugin_decision
from hermes.agent.approvals.guardrail import LoopGuardrail
from hermes.agent.approvals.owed import OwedAnswer
from hermes.agent.pipelines.file_changes import keepable, run_after_checkpoint
from hermes.agent.pipelines.tool_context import OutputTransform
from hermes.agent.pipelines.tool_outcome import ToolOutcome, as_text, bounded, data_problem, judge
from hermes.agent.runtime import Runtime
from hermes.base.config.schema.modes import MODES
from hermes.base.errors import Interrupted, TurnSuspended
from hermes.base.scope import Scope, current_scope
from hermes.contract.events import ToolEnded, ToolStarted
from hermes.hooks.answers import plain
from hermes.hooks.execution_chain import culprit_of
from hermes.hooks.observers import first_text
from hermes.journal.crash import crash_point
from hermes.journal.records import (
    CallRecord,
    ClaimRecord,
    PluginDecision,
    ResultChange,
    StoredFinding,
    WaitingCall,
    decisions_of,
)
from hermes.models.reply import ToolRequest
from hermes.tools.arguments import check_args, coerce_args, parse_arguments
from hermes.tools.registry import Args, Tool, ToolContext
from hermes.tools.results import is_only_error, mark_untrusted, tool_error, tool_result

if TYPE_CHECKING:
    from hermes.journal.turns.steps import TurnJournal
    from hermes.policy import Finding

_ADVICE = ". Send one JSON object."
_CUT_OFF = (
    "This call was not run: your answer reached the output limit of one answer in the middle of its arguments. "
    "The same call would be cut off again. Send less at once, for example a long file in several parts."
)


class ToolCall(msgspec.Struct):
    """One call on its way through the stages."""

    runtime: Runtime
    request: ToolRequest
    scope: Scope
    tool: Tool | None
    context: ToolContext
    args: Args = msgspec.field(default_factory=dict[str, Any])
    original_args: Args = msgspec.field(default_factory=dict[str, Any])
    trace: list[dict[str, str]] = msgspec.field(default_factory=list[dict[str, str]])
    #: What plugins did to the call.
    decisions: list[PluginDecision] = msgspec.field(default_factory=list[PluginDecision])
    #: The plugin that changed the result for the model, in ``transform_tool_result``.
    result_changed_by: str = ""
    #: True from ``pre_tool_call`` to ``post_tool_call``, which is owed in between.
    announced: bool = False
    #: Counts the calls of the turn; a call outside a turn has none.
    loop: LoopGuardrail | None = None
    #: Called before a question is asked: what led to the call is then recorded, and in the log.
    before_asking: Callable[[], None] | None = None
    _plugin_decision: Decision | tuple[Finding, ...] = ()
    #: It may change any file of the project, as far as the gate knows: they are saved before.
    may_change_tree: bool = True
    #: The recorded answer that the call uses up when it starts.
    _approval_id: str = ""
    #: The answer that plugins wait for.
    owed: OwedAnswer = msgspec.field(default_factory=OwedAnswer)
    #: Why changed arguments may not run; what the middleware makes of that is still no run.
    _refused: ToolOutcome | None = None
    _ran_with: Args | None = None

    # -- prepare ------------------------------------------------------------------------------------------------

    def prepare(self) -> ToolOutcome | None:
        """Prepare the arguments and pass the gates. An outcome means that the call ended already."""
        if self.announced:  # and prepared, by a run that was suspended
            problem = self._availability()
        else:
            problem = self._read_arguments() or self._availability()
            self._apply_request_middleware()
            self._plugin_decision = self._announce()
            problem = problem or self._check_data()
        if problem is not None:
            return problem  # there is nothing to block or to approve
        if not isinstance(self._plugin_decision, Decision):
            problem = self._check_arguments()  # no question about a call that cannot run
        return problem or self._pass_gate(self.args)

    def _read_arguments(self) -> ToolOutcome | None:
        try:
            self.args = parse_arguments(self.request.arguments)
        except ValueError as error:
            if self.request.is_last_of_cut_off:
                return self.failed(_CUT_OFF, "cut_off")
            return self.failed(f"{str(error).removesuffix(_ADVICE)}{_ADVICE}", "invalid_arguments")
        if self.tool is not None:
            self.args = coerce_args(self.args, self.tool.parameters)
        self.original_args = self.args
        return None

    def _availability(self) -> ToolOutcome | None:
        if self.tool is None:
            return self.failed(f"Unknown tool: {self.request.name}", "unknown_tool")
        if not self.runtime.tools.is_available(self.tool):
            needs = f": it needs {self.tool.needs}" if self.tool.needs else ""
            message = f"{self.tool.name} is not available here{needs}"
            return ToolOutcome(tool_error(message), "blocked", self.args, 0, "unavailable", message)
        return None

    def _apply_request_middleware(self) -> None:
        chain = self.runtime.hooks.tool_request
        if chain is None:
            return
        outcome = chain.run(self.args, self._fields())
        self.args, self.original_args, self.trace = outcome.payload, outcome.original, outcome.trace
        self.decisions += (PluginDecision(name, "tool_request", "changed") for name in outcome.changed_by)

    def _announce(self) -> Decision | tuple[Finding, ...]:
        """``pre_tool_call``: observers see the call, may change its arguments, block it or have it approved."""
        self.announced = True
        emit = self.runtime.hooks.pre_tool_call
        if emit is None:
            return ()
        # A callback may rewrite the arguments in place; the original must not change with them.
        self.args, self.trace = dict(self.args), list(self.trace)
        known = len(self.trace)
        decision, plugins = plugin_decision(self.request.name, emit(self.started()))
        for entry in self.trace[known:]:
            self.decisions.append(PluginDecision(entry["source"], "pre_tool_call", "changed"))
        did = "blocked" if isinstance(decision, Decision) else "asked"
        self.decisions += (PluginDecision(plugin, "pre_tool_call", did) for plugin in plugins)
        return decision

    def _check_data(self) -> ToolOutcome | None:
        """Plugins may have put objects into the arguments that no record can hold."""
        hooks = self.runtime.hooks
        if hooks.pre_tool_call is None and hooks.tool_request is None:
            return None
        problem = data_problem(self.args) if self.trace else None
        if problem is None:
            # A plugin may have kept what it was given: what is judged and approved must not change with that.
            self.args = plain(self.args)
            return None
        self.args = self.original_args
        return self.failed(problem, "invalid_arguments")

    def _pass_gate(self, args: Args) -> ToolOutcome | None:
        """Hardline commands, the user's rules, plugins, guardrails, approval: an outcome is a refusal."""
        assert self.tool is not None
        approvals = self.runtime.approvals
        examined = approvals.examine(self.tool, args, self.context)
        self.context.checked, self.may_change_tree = examined.checked, examined.may_change_tree
        decision = approvals.decide(
            self.tool,
            args,
            self.context,
            examined,
            plugin=self._plugin_decision,
            changed_by=[decision.plugin for decision in self.decisions if decision.did == "changed"],
            loop=self.loop,
            before_asking=self.before_asking,
            owed=self.owed,
        )
        self._approval_id = decision.approval_id
        return None if decision.allowed else self._blocked(decision, args)

    def _blocked(self, decision: Decision, args: Args) -> ToolOutcome:
        runs_commands = self.runtime.tools.declaration(self.request.name).runs_commands
        if runs_commands and decision.error_type not in ("plugin_block", "guardrail_block"):
            result = tool_result(output="", exit_code=-1, error=decision.message, status="blocked")
        else:
            result = tool_error(decision.message)
        return ToolOutcome(result, "blocked", args, 0, decision.error_type, decision.message)

    def _check_arguments(self) -> ToolOutcome | None:
        assert self.tool is not None
        problem = check_args(self.args, self.tool.parameters)
        return self.failed(problem, "invalid_arguments") if problem else None

    def failed(self, message: str, error_type: str) -> ToolOutcome:
        """The outcome of a call that failed."""
        return ToolOutcome(tool_error(message), "error", self.args, 0, error_type, message)

    # -- run ----------------------------------------------------------------------------------------------------

    def execute(self) -> ToolOutcome:
        """Run the tool inside its execution middleware. Never raises an ``Exception``: a failure is an outcome."""
        token = current_scope.set(self.scope)
        started = time.perf_counter()
        try:
            self.scope.interrupt.check()
            result = as_text(self._run_through_middleware())
            refused = self._refused
            outcome = judge(result, self._final_args()) if refused is None else replace(refused, result=result)
        except Interrupted as error:
            outcome = self.cancelled(error.reason)
        except (Exception, SystemExit) as error:
            if culprit_of(error):
                raise  # middleware ends the turn
            message = f"Tool execution failed: {type(error).__name__}: {error}"[:2000]
            outcome = ToolOutcome(tool_error(message), "error", self._final_args(), 0, type(error).__name__, message)
        finally:
            current_scope.reset(token)
        return outcome.after(started)

    def _run_through_middleware(self) -> object:
        chain = self.runtime.hooks.tool_execution
        if chain is None:
            return self._run_tool(self.args)
        context = {**self._fields(), "original_args": self.original_args, "middleware_trace": self.trace}
        result = chain.run(self.args, self._run_tool, context)
        plugins = [callback.plugin for callback in chain.callbacks]
        if self._ran_with is None and self._refused is None:
            self.decisions += decisions_of(chain.kind, plugins, "answered")
        elif self._ran_with is not None and self._ran_with is not self.args and self._ran_with != self.args:
            self.decisions += decisions_of(chain.kind, plugins, "changed")
        return result

    def _run_tool(self, args: Args) -> str:
        """The base of the chain. Middleware may have changed the arguments: what runs is what is recorded."""
        assert self.tool is not None
        self._refused = None
        if args is not self.args and args != self.args:
            problem = data_problem(args) or check_args(args, self.tool.parameters)
            if problem:
                return tool_error(problem)
            args = plain(args)  # middleware may still change what it passed on
            self._refused = self._pass_gate_late(args)
        if self._refused is None and self._approval_id:
            decision = self.runtime.approvals.consume(self._approval_id)
            self._refused = None if decision.allowed else self._blocked(decision, args)
        if self._refused is not None:
            return self._refused.result
        self._ran_with = args
        command, checkpoints = self.context.command, self.runtime.checkpoints
        command.only_reads = MODES[self.runtime.approvals.mode_of(self.scope)].only_reads
        if self.tool.may_run_commands:
            command.may_connect = partial(self.runtime.approvals.may_connect, self.tool, args, self.context)
        command.plugins_folder = self._plugins_folder(self.tool, args)
        crash_point()
        if checkpoints is None:
            result = self.tool.run(args, self.context)
        else:
            result = run_after_checkpoint(self, self.tool, args, checkpoints)
        crash_point()
        if isinstance(command.transform, OutputTransform) and command.transform.changed_by:
            plugin = command.transform.changed_by
            self.decisions.append(PluginDecision(plugin, "transform_terminal_output", "changed"))
        return result

    def _plugins_folder(self, tool: Tool, args: Args) -> str:
        """The working directory that a plugin gave the call; empty when it is the one that the model chose."""
        name = tool.declares.workdir if tool.declares is not None else ""
        given, chosen = args.get(name), self.original_args.get(name)
        if not given or given == chosen:
            return ""
        from hermes.tools.files.paths import resolve_path

        try:
            folder = os.path.realpath(resolve_path(given, self.context.cwd))
            # Written in another way, it is still the choice of the model.
            is_same = bool(chosen) and os.path.realpath(resolve_path(chosen, self.context.cwd)) == folder
        except ValueError:
            return ""
        return "" if is_same else folder

    def _pass_gate_late(self, args: Args) -> ToolOutcome | None:
        """Gate for arguments that middleware changed. The call is running, so the answer cannot come later."""
        try:
            return self._pass_gate(args)
        except TurnSuspended:
            self.runtime.approvals.settle(self.owed, self.scope, "the answer cannot come later")
            message = "Middleware changed the arguments, and they cannot be approved now; the call was not run."
            return self._blocked(Decision(False, message, "approval_denied"), args)

    def _final_args(self) -> Args:
        return self.args if self._ran_with is None else self._ran_with

    def cancelled(self, reason: str) -> ToolOutcome:
        """The outcome of a call that was cut off. Whether a started one took effect is not known."""
        message = f"The call was cancelled ({reason})"
        unsure = self._ran_with is not None and self.tool is not None and self.tool.effect == "unsafe"
        extra = {"outcome": "unknown"} if unsure else {}
        return ToolOutcome(
            tool_error(message, **extra), "cancelled", self._final_args(), 0, "keyboard_interrupt", message
        )

    # -- records -----------------------------------------------------------------------------------------------

    @property
    def unsafe(self) -> bool:
        """Whether the call needs a write-ahead claim, because it must never run twice."""
        return self.tool is None or self.tool.effect == "unsafe"

    @property
    def claims_itself(self) -> bool:
        """Whether the tool puts the claim on disk, right before its effect: then nothing else may take place before."""
        runtime = self.runtime
        return (
            self.tool is not None
            and self.tool.claims_itself
            and not self._approval_id
            and runtime.hooks.tool_execution is None
            and (runtime.checkpoints is None or not self.may_change_tree)
        )

    @property
    def is_observed(self) -> bool:
        """Whether plugins see how the call ended, and may change what it was given."""
        hooks = self.runtime.hooks
        return hooks.post_tool_call is not None or hooks.transform_tool_result is not None

    def waiting(self) -> WaitingCall:
        """The call as it waits for an answer: everything that it goes on with, perhaps in another process."""
        asking = self._plugin_decision
        found = () if isinstance(asking, Decision) else asking
        return WaitingCall(
            args=self.args,
            original_args=self.original_args,
            trace=self.trace,
            decisions=self.decisions,
            findings=[StoredFinding(finding.rule, finding.description) for finding in found],
            question=self.owed.question,
            surface=self.owed.surface,
        )

    def take_up(self, waiting: WaitingCall) -> None:
        """Go on where a run that was suspended stopped. Plugins know of the call."""
        self.announced = self.context.is_continued = True
        self.args, self.original_args = waiting.args, waiting.original_args
        self.trace, self.decisions = list(waiting.trace), list(waiting.decisions)
        self.owed = OwedAnswer(waiting.question, waiting.surface)
        if waiting.findings:
            from hermes.policy import Finding

            self._plugin_decision = tuple(Finding(one.rule, one.description, "") for one in waiting.findings)

    def claim(self) -> ClaimRecord:
        """The write-ahead claim of the call, recorded before it starts."""
        return ClaimRecord(self.request.id, self.request.name, self.runtime.redactor.mask_data(self.args))

    def record(self, outcome: ToolOutcome) -> CallRecord:
        """The record of the call with its result, without secrets."""
        redactor = self.runtime.redactor
        return CallRecord(
            id=self.request.id,
            name=self.request.name,
            args=redactor.mask_data(outcome.args),
            result=redactor.mask_known(outcome.result),
            status=outcome.status,
            error_type=outcome.error_type,
            error_message=outcome.error_message and redactor.mask_known(outcome.error_message),
            duration_ms=outcome.duration_ms,
            decisions=self.decisions,
            undone_changes=keepable(self) if self.context.command.undone else [],
        )

    def record_change(self, journal: TurnJournal, key: str) -> None:
        """Record who changed the result for the model. Its own event, because the result was recorded before."""
        if self.result_changed_by:
            decision = PluginDecision(self.result_changed_by, "transform_tool_result", "changed")
            journal.event("result_changed", key, ResultChange([decision]))

    # -- finish -------------------------------------------------------------------------------------------------

    def message(self, ended: ToolEnded) -> str:
        """Finish the call, and return the content of its message. Untrusted text is marked here and only here."""
        text = self.finish(ended)
        if not self.is_untrusted(ended):
            return text
        return mark_untrusted(text, f"{self.scope.turn_id}:{ended.tool_call_id}" if self.scope.turn_id else "")

    def is_untrusted(self, ended: ToolEnded) -> bool:
        """Whether the result is untrusted text."""
        # A refusal is Hermes' own text.
        if self.tool is None or not self.tool.untrusted or ended.status == "blocked":
            return False
        decide = self.tool.untrusted
        if isinstance(decide, bool):
            return decide
        # So is the error of a built-in tool, as long as it has nothing of what was read or fetched before it.
        is_own = ended.status != "ok" and is_only_error(ended.result)
        return not is_own and decide(ended.args, self.context)

    def finish(self, ended: ToolEnded) -> str:
        """Emit how the call ended, once, and return the result as the model may see it, without a mark."""
        text = ended.result
        if self.owed.question:
            self.runtime.approvals.settle(self.owed, self.scope, "the call ended without an answer")
        post, transform = self.runtime.hooks.post_tool_call, self.runtime.hooks.transform_tool_result
        owed, self.announced = self.announced, False
        if owed and (post is not None or transform is not None):
            # Cancelling the turn may end the wait for an async callback; the call still gets its message.
            with contextlib.suppress(Interrupted):
                if post is not None:
                    post(ended)
                if transform is not None:
                    changed = first_text(transform(ended))
                    if changed is not None and changed.value != text:
                        text, self.result_changed_by = changed.value, changed.plugin
        return bounded(self.runtime.redactor.mask_known(text))

    # -- events -------------------------------------------------------------------------------------------------

    def started(self) -> ToolStarted:
        """The event of its start."""
        return ToolStarted(**self._fields(), args=self.args, middleware_trace=self.trace)

    def ended(self, outcome: ToolOutcome) -> ToolEnded:
        """The event of its end."""
        return ToolEnded(
            **self._fields(),
            args=outcome.args,
            result=outcome.result,
            duration_ms=outcome.duration_ms,
            status=outcome.status,
            error_type=outcome.error_type,
            error_message=outcome.error_message,
            middleware_trace=self.trace,
        )

    def _fields(self) -> dict[str, Any]:
        """The fields that every event of a tool call has."""
        return {"tool_name": self.request.name, **self.scope.ids("api_request_id", "tool_call_id")}
