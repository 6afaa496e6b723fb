"""Named mutants: ways to break the contract, each a small edit of the source, with who has to find it."""

from __future__ import annotations

from typing import NamedTuple

#: The conformance conversation.
KIT = "kit"


class Mutant(NamedTuple):
    """One edit: ``old`` occurs once in the file and becomes ``new``."""

    name: str
    #: The file below ``src/hermes``.
    file: str
    old: str
    new: str
    #: The tests that find it.
    caught_by: str = KIT


_TOOL = "agent/pipelines/tool_call.py"
_MODEL = "agent/pipelines/model_call.py"
_TURN = "agent/turn.py"
_TURN_HOOKS = "agent/context/hooks.py"
_CHAIN = "hooks/execution_chain.py"
_OBSERVERS = "hooks/observers.py"
_DELEGATE = "agent/children/delegate.py"
_MATRIX = "tests/contract/test_delivery_matrix.py"

#: What a review of the project broke: it found that sixteen were caught, and six were not.
REVIEWED = (
    Mutant(
        "post_tool_call is missing for a blocked call",
        _TOOL,
        "        if owed and (post is not None",
        '        if owed and ended.status != "blocked" and (post is not None',
    ),
    Mutant(
        "pre_llm_call fires twice",
        _TURN_HOOKS,
        "        for plugin, piece in _context_pieces(hooks.pre_llm_call(self.started())):",
        "        hooks.pre_llm_call(self.started())\n"
        "        for plugin, piece in _context_pieces(hooks.pre_llm_call(self.started())):",
    ),
    Mutant("api_request_id is empty", _MODEL, '    return f"{turn_id}:api:{number}"', '    return ""'),
    Mutant(
        "execution middleware is nested inside out",
        _CHAIN,
        "        self._callbacks = chain.callbacks\n",
        "        self._callbacks = chain.callbacks[::-1]\n",
    ),
    Mutant(
        "request middleware runs in reverse",
        "hooks/request_chain.py",
        "        for callback in self.callbacks:",
        "        for callback in self.callbacks[::-1]:",
    ),
    Mutant(
        "a failure after next_call runs the tool again",
        _CHAIN,
        '            callback.blame(error, "the result it had received is kept")\n            return self.result',
        '            callback.blame(error, "the result it had received is kept")\n'
        "            return self._passage.enter(self._index + 1, self._payload)",
        "tests/hooks/test_execution_chain.py",
    ),
    Mutant(
        "a failure before next_call ends the call",
        _CHAIN,
        "            callback.blame(error, _WITHOUT_IT)\n            return self._passage",
        "            callback.blame(error, _WITHOUT_IT)\n            raise error\n            return self._passage",
    ),
    Mutant(
        "a failure below becomes None",
        _CHAIN,
        '        if state == "failed":\n            callback.failed(RuntimeError("returned None',
        '        if state == "never":\n            callback.failed(RuntimeError("returned None',
        "tests/hooks/test_execution_chain.py",
    ),
    Mutant(
        "next_call may be called twice",
        _CHAIN,
        "            self.permit.pop()\n        except IndexError:",
        "            self.permit[0]\n        except IndexError:",
        "tests/hooks/test_execution_chain.py",
    ),
    Mutant(
        "plugins share their payloads",
        "hooks/callback.py",
        "        names = self.names\n        given = own.copy() if names is None",
        "        names = self.names\n        if names is None:\n            return own.copy()\n"
        "        given = own.copy() if names is None",
    ),
    Mutant("the trace is missing", "hooks/request_chain.py", "                trace.append(entry)\n", ""),
    Mutant(
        "subagent_stop is missing when the child fails",
        _DELEGATE,
        "        if emit is not None:\n            with contextlib.suppress(Interrupted):\n                emit(ended)",
        '        if emit is not None and report.status == "completed":\n'
        "            with contextlib.suppress(Interrupted):\n                emit(ended)",
        f"{_MATRIX} -k child",
    ),
    Mutant(
        "a timeout is told as a refusal",
        "agent/approvals/owed.py",
        "            choice=choice,\n",
        '            choice="deny" if choice == "timeout" else choice,\n',
        "tests/agent/approvals/test_approvals_hooks.py",
    ),
    Mutant(
        "a message that a plugin skipped is answered",
        "surfaces/gateway/gateway.py",
        '                log.info("plugin %r skipped a message: %s", answer.plugin, value.get("reason", ""))\n'
        "                return False",
        '                log.info("plugin %r skipped a message: %s", answer.plugin, value.get("reason", ""))\n'
        "                return True",
        "tests/surfaces/gateway/test_gateway_messages.py -k plugin",
    ),
    Mutant(
        "sender_id is empty",
        _TURN_HOOKS,
        "            sender_id=parts.sender_id,",
        '            sender_id="",',
        "tests/contract/test_host_conformance.py -k chat",
    ),
    Mutant(
        "the model gate lets a plugin choose a provider",
        "plugins/llm/trust.py",
        "    if settings.get(flag) is not True:",
        '    if settings.get(flag) is not True and name != "provider":',
        "tests/plugins/llm/test_trust.py",
    ),
    Mutant(
        "transform_tool_result comes before post_tool_call",
        _TOOL,
        "                if post is not None:\n                    post(ended)\n"
        "                if transform is not None:\n                    changed = first_text(transform(ended))\n",
        "                if transform is not None:\n"
        "                    changed = first_text(transform(ended))\n                if post is not None:\n"
        "                    post(ended)\n                if transform is not None:\n",
    ),
    Mutant(
        "pre_tool_call comes before tool_request",
        _TOOL,
        "            self._apply_request_middleware()\n            self._plugin_decision = self._announce()\n",
        "            self._plugin_decision = self._announce()\n            self._apply_request_middleware()\n",
    ),
    Mutant(
        "a block after another plugin's answer is dropped",
        "agent/approvals/gate.py",
        '        if value.get("action") == "block" and message:',
        '        if value.get("action") == "block" and message and not asked:',
    ),
    Mutant(
        "retry_count is always 0",
        _MODEL,
        "            retry_count=self.retry_count,",
        "            retry_count=0,",
    ),
    Mutant(
        "transform_llm_output takes the last text",
        _TURN_HOOKS,
        "        for answer in emit(AnswerTransform(**self._fields(), response_text=text)):",
        "        for answer in reversed(emit(AnswerTransform(**self._fields(), response_text=text))):",
    ),
    Mutant(
        "original_args of tool_execution are the rewritten ones",
        _TOOL,
        '"original_args": self.original_args,',
        '"original_args": self.args,',
    ),
)

OURS = (
    Mutant(
        "original_request of llm_execution is the rewritten one",
        _MODEL,
        '"original_request": self.original,',
        '"original_request": self.request,',
    ),
    Mutant(
        "transform_tool_result takes the last text",
        _OBSERVERS,
        "    return next((answer for answer in answers if isinstance(answer.value, str)), None)",
        "    return next((answer for answer in answers[::-1] if isinstance(answer.value, str)), None)",
    ),
    Mutant(
        "an empty text replaces an answer",
        _TURN_HOOKS,
        "            if isinstance(answer.value, str) and answer.value:",
        "            if isinstance(answer.value, str):",
    ),
    Mutant(
        "contexts of pre_llm_call are added in reverse",
        _TURN_HOOKS,
        '        return replace(setup, context="\\n\\n".join(pieces), decisions=decisions)',
        '        return replace(setup, context="\\n\\n".join(pieces[::-1]), decisions=decisions)',
    ),
    Mutant(
        "the last pre_verify is heard",
        _TURN_HOOKS,
        "    for answer in answers:\n        if not isinstance(answer.value, dict):",
        "    for answer in reversed(answers):\n        if not isinstance(answer.value, dict):",
    ),
    Mutant("attempt of pre_verify is always 0", _TURN_HOOKS, "            attempt=attempt,", "            attempt=0,"),
    Mutant(
        "post_llm_call is given the text before it was transformed",
        _TURN,
        "            text, changed_by = self._hooks.transform(emit, text)",
        "            _, changed_by = self._hooks.transform(emit, text)",
    ),
    Mutant(
        "api_call_count does not count",
        _MODEL,
        '            "api_call_count": self.count,',
        '            "api_call_count": 1,',
    ),
    Mutant(
        "platform is empty in attempts",
        _MODEL,
        '            "api_mode": self.endpoint.api_mode,\n',
        '            "api_mode": self.endpoint.api_mode,\n            "platform": "",\n',
    ),
    Mutant(
        "a failed attempt is told as not retryable",
        _MODEL,
        "            retryable=bool(known and known.retryable),",
        "            retryable=False,",
    ),
    Mutant(
        "post_tool_call has no trace",
        _TOOL,
        "            error_message=outcome.error_message,\n            middleware_trace=self.trace,",
        "            error_message=outcome.error_message,\n            middleware_trace=[],",
    ),
    Mutant(
        "post_tool_call has the arguments that the model sent",
        _TOOL,
        "            **self._fields(),\n            args=outcome.args,",
        "            **self._fields(),\n            args=self.original_args,",
    ),
    Mutant(
        "calls of a turn name no attempt",
        _TURN,
        "            scope = self._scope.child(api_request_id=answered.api_request_id)",
        '            scope = self._scope.child(api_request_id="")',
    ),
    Mutant(
        "a blocked call is told as failed",
        _TOOL,
        '        return ToolOutcome(result, "blocked", args, 0, decision.error_type, decision.message)',
        '        return ToolOutcome(result, "error", args, 0, decision.error_type, decision.message)',
    ),
    Mutant(
        "a change of arguments in pre_tool_call is not used",
        _OBSERVERS,
        "    own.clear()\n    own.update(taken)\n",
        "",
    ),
    Mutant(
        "a plugin that fails ends the turn",
        "hooks/callback.py",
        "        self.blame(error, consequence)\n        return LATE",
        "        self.blame(error, consequence)\n        raise error\n        return LATE",
    ),
    Mutant(
        "the hooks of a child do not name its parent",
        _DELEGATE,
        "            parent_session_id=scope.session_id,",
        '            parent_session_id="",',
    ),
    Mutant(
        "subagent_stop has no summary",
        _DELEGATE,
        "            child_summary=report.summary,",
        '            child_summary="",',
    ),
    Mutant(
        "a session is never finalized",
        "agent/session.py",
        "        emit = self.runtime.hooks.on_session_finalize\n        if emit is not None:",
        "        emit = self.runtime.hooks.on_session_finalize\n        if emit is not None and new_session_id:",
    ),
    Mutant(
        "a resumed session starts again",
        _TURN_HOOKS,
        "        if self._parts.journal.ordinal == 0 and hooks.on_session_start is not None:",
        "        if hooks.on_session_start is not None:",
        f"{_MATRIX} -k 'resumed or second'",
    ),
    Mutant(
        "is_first_turn is always true",
        _TURN_HOOKS,
        "            is_first_turn=journal.ordinal == 0,",
        "            is_first_turn=True,",
        f"{_MATRIX} -k second",
    ),
    Mutant(
        "an interrupted turn is told as completed",
        _TURN_HOOKS,
        "            completed=has_answer,",
        "            completed=True,",
        f"{_MATRIX} -k interrupt",
    ),
    Mutant(
        "the answer to an approval is not told",
        "agent/approvals/owed.py",
        "            emit(answer)",
        "            pass",
    ),
    Mutant(
        "an approval is told with nobody who decided",
        "agent/approvals/owed.py",
        "            decided_by=by or UNSET,",
        "            decided_by=UNSET,",
    ),
    Mutant(
        "post_approval_response is missing for a refusal",
        "agent/approvals/owed.py",
        "        if requested is None or emit is None:",
        '        if requested is None or emit is None or choice == "deny":',
        f"{_MATRIX} -k approval",
    ),
    Mutant(
        "on_unload is forgotten",
        "plugins/registry.py",
        "            unload(plugin, self._hooks.runner)",
        "            plugin.clean_ups.clear()",
    ),
    Mutant(
        "the schema version is another one",
        _OBSERVERS,
        '        payload["telemetry_schema_version"] = OBSERVER_SCHEMA',
        '        payload["telemetry_schema_version"] = "hermes.observer.v0"',
    ),
)

MUTANTS = (*REVIEWED, *OURS)
