"""Which hook fires how often on which path: the expected table of the delivery matrix, as data.

A hook that a row does not name fires zero times there. Of ``on_stream_delta`` the attempts are counted that had any:
how many pieces come together depends on the machine. ``PENDING`` names the paths whose feature does not exist yet,
with the feature that turns each of them on.
"""

from __future__ import annotations

Counts = dict[str, int]

#: What every turn that reaches an answer fires, besides its model and tool calls.
_ANSWERED: Counts = {
    "on_session_start": 1,
    "pre_llm_call": 1,
    "transform_llm_output": 1,
    "post_llm_call": 1,
    "on_session_end": 1,
    "on_session_finalize": 1,
    "on_stream_delta": 1,
}
#: What a turn without an answer fires.
_UNANSWERED: Counts = {"on_session_start": 1, "pre_llm_call": 1, "on_session_end": 1, "on_session_finalize": 1}
#: What only an answer fires.
_OF_AN_ANSWER = ("transform_llm_output", "post_llm_call", "on_stream_delta")
_CHILD: Counts = {"subagent_start": 1, "subagent_stop": 1}


def _model(ok: int = 0, failed: int = 0) -> Counts:
    return {
        "llm_request": ok + failed,
        "pre_api_request": ok + failed,
        "llm_execution": ok + failed,
        "on_stream_start": ok,
        "on_stream_end": ok,
        "post_api_request": ok,
        "api_request_error": failed,
        "transform_api_error_classification": failed,
    }


def _twice(counts: Counts, *, but_once: tuple[str, ...] = ()) -> Counts:
    """What two conversations fire, a parent's and a child's."""
    return {site: count if site in but_once else 2 * count for site, count in counts.items()}


def _tools(run: int = 0, refused: int = 0, commands: int = 0) -> Counts:
    """``run`` calls reached their tool, ``refused`` were closed before; ``commands`` of those run ended normally."""
    return {
        "tool_request": run + refused,
        "pre_tool_call": run + refused,
        "tool_execution": run,
        "transform_terminal_output": commands,
        "post_tool_call": run + refused,
        "transform_tool_result": run + refused,
    }


def _aux(count: int) -> Counts:
    """``count`` attempts beside the conversation."""
    return {"pre_auxiliary_call": count, "post_auxiliary_call": count}


#: A loop that something stopped.
_STOPPED: Counts = {"agent_loop_stopped": 1}
#: An attempt that was interrupted has no failure to classify.
_NOT_OF_A_PROVIDER: Counts = {"transform_api_error_classification": 0}
_RESUMED: Counts = {"on_session_start": 0, "on_session_resume": 1}

#: What a question to a person fires.
_ASKED: Counts = {"pre_approval_request": 1, "post_approval_response": 1}

EXPECTED: dict[str, Counts] = {
    "ok": _ANSWERED | _model(ok=1),
    "tool ok": _ANSWERED | _model(ok=2) | _tools(run=1, commands=1),
    "words beside a tool call": {**_ANSWERED, "on_stream_delta": 2}
    | _model(ok=2)
    | _tools(run=1, commands=1)
    | {"on_interim_message": 1},
    "tool error": _ANSWERED | _model(ok=2) | _tools(run=1),
    "unknown tool": _ANSWERED | _model(ok=2) | _tools(refused=1),
    "bad arguments": _ANSWERED | _model(ok=2) | _tools(refused=1),
    "provider error then retry": _ANSWERED | _model(ok=1, failed=1),
    "refusal that a plugin calls overload": _ANSWERED | _model(ok=1, failed=1),
    "provider error final": _UNANSWERED | _model(failed=1) | _STOPPED,
    "fallback after a failure": _ANSWERED | _model(ok=1, failed=1),
    "fallback with a bad key": _ANSWERED | _model(ok=1, failed=1),
    # Nobody is asked who would be refused for the same reason.
    "fallback behind the same bad key": _UNANSWERED | _model(failed=1) | _STOPPED,
    "blocked by hook": _ANSWERED | _model(ok=2) | _tools(refused=1),
    "headless denial": _ANSWERED | _model(ok=2) | _tools(refused=1),
    "approved approval": _ANSWERED | _model(ok=2) | _tools(run=1, commands=1) | _ASKED,
    "denied approval": _ANSWERED | _model(ok=2) | _tools(refused=1) | _ASKED,
    "approval timeout": _ANSWERED | _model(ok=2) | _tools(refused=1) | _ASKED,
    # The turn waits, and goes on when the answer is there: in this process, or in the next one, which is told as such.
    "answered later": _ANSWERED | _model(ok=2) | _tools(run=1, commands=1) | _ASKED,
    "answered after a restart": {**_ANSWERED, "on_session_resume": 1, "on_session_finalize": 2}
    | _model(ok=2)
    | _tools(run=1, commands=1)
    | _ASKED,
    "timed out": _ANSWERED | _model(ok=2) | _tools(refused=1) | _ASKED,
    # Or it was stopped while it waited.
    "client gone": _UNANSWERED | _model(ok=1) | _tools(refused=1) | _ASKED | _STOPPED,
    "interrupt during model call": _UNANSWERED | _model(failed=1) | _STOPPED | _NOT_OF_A_PROVIDER,
    "interrupt during tool": _UNANSWERED | _model(ok=1) | _tools(run=1) | _STOPPED,
    "max turns": _ANSWERED | _model(ok=2) | _tools(run=1, commands=1) | _STOPPED,
    "parallel batch": _ANSWERED | _model(ok=2) | _tools(run=3),
    "pre_verify": _ANSWERED | _model(ok=2) | _tools(run=1) | {"pre_verify": 1},
    "second turn": {**_ANSWERED, "pre_llm_call": 2, "transform_llm_output": 2, "post_llm_call": 2, "on_session_end": 2}
    | {"on_stream_delta": 2}
    | _model(ok=2),
    # A resumed conversation is not a new one: no on_session_start.
    "resumed session": {**_ANSWERED, **_RESUMED} | _model(ok=1),
    # The parent and its child are two conversations.
    "child agent": _twice(_ANSWERED) | _model(ok=3) | _tools(run=1) | _CHILD,
    "child failure": _twice(_ANSWERED, but_once=_OF_AN_ANSWER)
    | _model(ok=2, failed=1)
    | _tools(run=1)
    | _CHILD
    | _STOPPED,
    "child timeout": _twice(_ANSWERED, but_once=_OF_AN_ANSWER)
    | _model(ok=2, failed=1)
    | _tools(run=1)
    | _CHILD
    | _STOPPED
    | _NOT_OF_A_PROVIDER,
    # Two identities end: the one that /new leaves, and the one it begins.
    "reset session": {**_ANSWERED, "on_session_finalize": 2, "on_session_reset": 1} | _model(ok=1) | {"pre_command": 1},
    # One of a plugin, one of the runtime; the one that does not exist is none.
    "slash command": {"pre_command": 2},
    "question of a plugin": _ANSWERED | _model(ok=1) | _aux(1),
    # The first attempt fails and is repeated.
    "summary that is repeated": _ANSWERED | _model(ok=1) | _aux(2) | {"transform_api_error_classification": 1},
    "side call interrupted": _UNANSWERED | _aux(1) | _STOPPED,
    "chat message": {**_ANSWERED, "pre_gateway_dispatch": 1} | _model(ok=1),
    "chat message of an unknown sender": {"pre_gateway_dispatch": 1},
    "webhook delivery": {**_ANSWERED, "pre_gateway_dispatch": 1} | _model(ok=1),
    "one-shot exit": _ANSWERED | _model(ok=2) | _tools(run=1, commands=1),
    "SIGTERM": _UNANSWERED | _model(failed=1) | _STOPPED | _NOT_OF_A_PROVIDER,
    # Two processes each: the one that died, and the one that finished the turn.
    "killed in a model call": {"on_session_start": 1, "pre_llm_call": 1, "llm_request": 1, "pre_api_request": 1},
    "resumed after that": {**_ANSWERED, **_RESUMED, "pre_llm_call": 0} | _model(ok=1),
    "killed in a tool": {"on_session_start": 1, "pre_llm_call": 1, "tool_request": 1, "pre_tool_call": 1}
    | _model(ok=1)
    | {"tool_execution": 1},
    # The call is not run again; it is closed as unknown.
    "resumed after that tool": {**_ANSWERED, **_RESUMED, "pre_llm_call": 0}
    | _model(ok=1)
    | {"post_tool_call": 1, "transform_tool_result": 1},
}

PENDING: dict[str, str] = {}
