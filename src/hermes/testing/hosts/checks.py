"""Checks of the conformance conversation: what a host must have fired, and with which values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.testing.hosts.breaches import RecordedEvent, breaches
from hermes.testing.hosts.conversation import (
    ANSWER,
    FAILURES,
    FILE,
    GOAL,
    MESSAGE,
    NOTES,
    PLUGINS,
    REVIEWED,
)
from hermes.testing.hosts.probe import ASIDE, REVIEW
from hermes.testing.hosts.recording import HostRecording

#: Calls that a veto stops, and whose.
_VETOED = {"note-late": 3, "note-early": 1}
#: Calls that do not run: those, and the one that the reviewer refuses.
_NOT_RUN = (*_VETOED, "note-refuse")
#: What the plugins make of each call: both rewrite it, and the first changes one more in ``pre_tool_call``.
_MADE = {call: f"{said}13!" if call == "note-change" else f"{said}13" for call, said in NOTES.items()}
#: Attempts at the model: the failures, then a reply for each step, and one after the check. The child has two.
_ATTEMPTS = FAILURES + 7
_CALLS, _RUN = 12, 8

#: How often each site is seen in the main conversation, and in that of the child.
DELIVERED: dict[str, tuple[int, int]] = {
    "on_session_start": (1, 1),
    "pre_llm_call": (1, 1),
    "llm_request": (_ATTEMPTS, 2),
    "pre_api_request": (_ATTEMPTS, 2),
    "llm_execution": (_ATTEMPTS, 2),
    "post_api_request": (_ATTEMPTS - FAILURES, 2),
    "api_request_error": (FAILURES, 0),
    "transform_api_error_classification": (FAILURES, 0),
    "on_stream_start": (_ATTEMPTS - FAILURES, 2),
    "on_stream_end": (_ATTEMPTS - FAILURES, 2),
    "pre_command": (0, 0),
    "tool_request": (_CALLS, 1),
    "pre_tool_call": (_CALLS, 1),
    "tool_execution": (_RUN, 1),
    "transform_terminal_output": (1, 0),
    "post_tool_call": (_CALLS, 1),
    "transform_tool_result": (_CALLS, 1),
    "subagent_start": (1, 0),
    "subagent_stop": (1, 0),
    "pre_verify": (2, 0),
    "transform_llm_output": (1, 1),
    "post_llm_call": (1, 1),
    "on_session_end": (1, 1),
    "on_session_finalize": (1, 1),
    # The question of the tool, and those to the reviewer.
    "pre_auxiliary_call": (1 + len(REVIEWED), 0),
    "post_auxiliary_call": (1 + len(REVIEWED), 0),
    "pre_approval_request": (len(REVIEWED), 0),
    "post_approval_response": (len(REVIEWED), 0),
    "on_session_resume": (0, 0),
    "agent_loop_stopped": (0, 0),
    "on_interim_message": (1, 0),
}

#: Sites that depend on the surface, that one message does not lead to, or that come in any number of pieces.
ELSEWHERE = frozenset({"pre_gateway_dispatch", "on_session_reset", "on_stream_delta"})


Check = Callable[[HostRecording], Iterator[str]]


def contract(run: HostRecording) -> Iterator[str]:
    """Names, fields, their types and values, pairs, order and ids are those of the contract."""
    for number, events in run.by_plugin.items():
        yield from (f"{breach} (plugin {number})" for breach in breaches(events))


def delivery(run: HostRecording) -> Iterator[str]:
    """Each hook and each kind of middleware fires as often as it should."""
    for site, expected in DELIVERED.items():
        seen = (len(run.of(site)), len(run.of(site, child=True)))
        if seen != expected:
            yield f"{site} fired {seen} times (main conversation, child), not {expected}"


def same(run: HostRecording) -> Iterator[str]:
    """Every plugin is given the same, whatever another one does to its copy."""

    def seen(events: Sequence[RecordedEvent]) -> Counter[str]:
        # How many pieces of a stream come together is another matter for each plugin.
        whole = [event for event in events if event.name in MIDDLEWARE or not HOOKS[event.name].joined]
        return Counter(_comparable(event) for event in whole)

    first = seen(run.by_plugin[1])
    for number in (2, 3):
        other = seen(run.by_plugin[number])
        for text in (first - other) + (other - first):
            yield f"plugin {number} and plugin 1 were not given the same: {text[:300]}"


def _comparable(event: RecordedEvent) -> str:
    """An event without what changes from one plugin to the next."""
    kind, changing = MIDDLEWARE.get(event.name), ("",)
    if event.name in HOOKS and HOOKS[event.name].live:
        changing = (HOOKS[event.name].live, "middleware_trace")
    elif kind is not None and not kind.wraps:
        changing = (kind.payload,)
    fields = {name: value for name, value in event.payload.items() if name not in changing}
    return f"{event.name} {json.dumps(fields, sort_keys=True)}"


def arguments(run: HostRecording) -> Iterator[str]:
    """The arguments of a call are rewritten in order; `original_args` is what the model sent."""
    sites = ("pre_tool_call", "tool_execution", "post_tool_call", "transform_tool_result")
    for call, said in NOTES.items():
        for site in ("tool_request", "tool_execution"):
            for number in run.by_plugin:
                payload = run.calls(site, number).get(call)
                if payload and payload.get("original_args") != {"say": said}:
                    yield f"{site}: original_args is {payload.get('original_args')}, the model sent {said!r}"
        for site in sites:
            payload = run.calls(site, 3).get(call)
            if payload and payload.get("args") != {"say": _MADE[call]}:
                yield f"{site}: args is {payload.get('args')}, the plugins made {_MADE[call]!r} of {said!r}"
    ran = [event.payload["args"] for event in run.events if event.phase == "run"]
    expected = [{"say": made} for call, made in _MADE.items() if call not in _NOT_RUN]
    if ran != expected:
        yield f"the tool ran with {ran}, not with {expected}"


def requests(run: HostRecording) -> Iterator[str]:
    """So are requests; what is sent is what the last plugin made."""
    for payload in run.of("llm_execution", child=None):
        if "user" in payload["original_request"] or payload["request"].get("user") != "13":
            yield "llm_execution: original_request is before the plugins, request is behind them"
    for payload in run.of("pre_api_request", child=None):
        if payload["request"].get("body", {}).get("user") != "13":
            yield "pre_api_request: request is not what the plugins made"
    beside = [ASIDE in said or REVIEW in said for said in (request.last_user_text for request in run.requests)]
    sent = [request.body.get("user") for request, is_beside in zip(run.requests, beside, strict=True) if not is_beside]
    if set(sent) != {"13"}:
        yield "what was sent is not what the plugins made"


def traces(run: HostRecording) -> Iterator[str]:
    """`middleware_trace` names the plugins that rewrote something, in order."""
    sources = [PLUGINS[0], PLUGINS[2]]
    for site in ("pre_tool_call", "tool_execution", "post_tool_call", "transform_tool_result"):
        for call, payload in run.calls(site, 3).items():
            more = [PLUGINS[0]] if call == "note-change" else []
            traced = [entry.get("source") for entry in payload.get("middleware_trace", [])]
            if traced != ([*sources, *more] if call in NOTES else []):
                yield f"{site}: middleware_trace names {traced} for {call}"
    for site in ("pre_api_request", "llm_execution", "post_api_request", "api_request_error"):
        for payload in run.of(site, child=None):
            if payload.get("middleware_trace") != [{"source": source} for source in sources]:
                yield f"{site}: middleware_trace is {payload.get('middleware_trace')}"


def nesting(run: HostRecording) -> Iterator[str]:
    """Execution middleware is nested, first plugin outside; one that fails is left out."""
    into = [(1, "call"), (2, "call"), (3, "call")]
    # The second fails every other time, before it passes the call on.
    whole = ([*into, (3, "return"), (1, "return")], [*into, (3, "return"), (2, "return"), (1, "return")])
    for kind, key in (("tool_execution", "tool_call_id"), ("llm_execution", "api_request_id")):
        around: dict[str, list[tuple[int, str]]] = {}
        for event in run.events:
            if event.name == kind:
                around.setdefault(str(event.payload.get(key)), []).append((event.plugin, event.phase))
        failed = {str(payload["api_request_id"]) for payload in run.of("api_request_error", child=None)}
        for one, seen in around.items():
            if seen not in ([into] if one in failed else whole):
                yield f"{kind}: plugins were entered and left as {seen}"


def vetoes(run: HostRecording) -> Iterator[str]:
    """A block stops a call, whatever other plugins answered and in whichever order."""
    ended = run.calls("post_tool_call")
    for call, number in _VETOED.items():
        outcome = ended.get(call, {})
        if outcome.get("status") != "blocked" or f"veto of {number}" not in str(outcome.get("result")):
            yield f"{NOTES[call]!r} ended as {outcome.get('status')}: {outcome.get('result')}"


def outcomes(run: HostRecording) -> Iterator[str]:
    """Results, status and errors of calls are what happened."""
    ended = run.calls("post_tool_call")
    blocked = dict.fromkeys(_NOT_RUN, "blocked")
    expected = {
        **dict.fromkeys(NOTES, "ok"),
        **blocked,
        "unknown": "error",
        "command": "ok",
        "file": "ok",
        "child": "ok",
    }
    if (statuses := {call: payload.get("status") for call, payload in ended.items()}) != expected:
        yield f"post_tool_call: the status of the calls is {statuses}"
    for call, payload in ended.items():
        failed = payload.get("status") != "ok"
        if bool(payload.get("error_type")) != failed or bool(payload.get("error_message")) != failed:
            yield f"post_tool_call: {call} ended as {payload.get('status')} with {payload.get('error_type')}"
    if str(ended.get("note-one", {}).get("result")) != '{"noted": "one13"}':
        yield "post_tool_call: result is not what the tool returned"
    if "seen\n by 2" not in json.loads(str(ended.get("command", {}).get("result") or "{}")).get("output", ""):
        yield "post_tool_call: the output of the command is not that of the first transform_terminal_output"


def results(run: HostRecording) -> Iterator[str]:
    """The model is given the first text of `transform_tool_result`."""
    shown = run.tool_messages()
    for call, said in NOTES.items():
        number = 1 if said == "both" else 3
        if shown.get(call) != f"result for {_MADE[call]} by {number}":
            yield f"the model was given {shown.get(call)!r} for {said!r}"
    for payload in run.of("transform_tool_result", 3, child=None):
        if payload.get("result") != run.calls("post_tool_call")[str(payload["tool_call_id"])].get("result"):
            yield "transform_tool_result: result is not that of post_tool_call"


def attempts(run: HostRecording) -> Iterator[str]:
    """Attempts are counted, and calls belong to the attempt that asked for them."""
    failed = run.of("api_request_error")
    seen = [(one.get("retry_count"), one.get("status_code"), one.get("retryable")) for one in failed]
    if seen != [(number, 503, True) for number in range(FAILURES)]:
        yield f"api_request_error: retry_count, status_code and retryable are {seen}"
    answered = [one.get("api_request_id") for one in run.of("post_api_request", child=None)]
    for payload in run.of("pre_tool_call", child=None):
        if payload.get("api_request_id") not in answered:
            yield "pre_tool_call: api_request_id is not that of the reply that asked for the call"
    counted = [one.get("assistant_tool_call_count") for one in run.of("post_api_request")]
    if counted != [4, 5, 1, 1, 1, 0, 0]:
        yield f"post_api_request: assistant_tool_call_count is {counted}"
    for payload in run.of("pre_api_request", child=None):
        sizes = (len(payload["request_messages"]), len(payload["tools"]))
        if (payload.get("message_count"), payload.get("tool_count")) != sizes:
            yield "pre_api_request: message_count and tool_count are not those of the request"


def aside(run: HostRecording) -> Iterator[str]:
    """A call of `ctx.llm` is told as one beside the conversation, with the plugin that made it."""
    said = {"plugin": PLUGINS[0], "purpose": "conformance", "aux_task": "plugin_llm", "retry_count": 0}
    for site, more in (("pre_auxiliary_call", {}), ("post_auxiliary_call", {"finish_reason": "stop", "error": None})):
        for payload in [one for one in run.of(site) if one.get("aux_task") != "approval"]:
            if wrong := {name for name, value in {**said, **more}.items() if payload.get(name, ...) != value}:
                yield f"{site}: {', '.join(sorted(wrong))} is not what happened"
    calls = [one for one in run.of("pre_auxiliary_call") if one.get("aux_task") == "plugin_llm"]
    asked = [one for payload in calls for one in payload["request_messages"]]
    if [one.get("content") for one in asked if one.get("role") == "user"] != [ASIDE]:
        yield "pre_auxiliary_call: request_messages is not what the plugin asked"


def approvals(run: HostRecording) -> Iterator[str]:
    """A call that a plugin wants approved is asked about, and both hooks tell the same question; a refusal holds."""
    asked, answered = run.calls("pre_approval_request"), run.calls("post_approval_response")
    for call, choice in REVIEWED.items():
        question, answer = asked.get(call, {}), answered.get(call, {})
        if f"{REVIEW} {NOTES[call]}" not in str(question.get("description")) or question.get("surface") != "smart":
            yield f"pre_approval_request: description or surface of {call} is wrong"
        if {name: answer.get(name) for name in question} != question:
            yield f"post_approval_response: {call} is not the question that was asked"
        if (answer.get("choice"), answer.get("decided_by")) != (choice, "aux_llm"):
            yield f"post_approval_response: {call} was answered {answer.get('choice')} by {answer.get('decided_by')}"


def context(run: HostRecording) -> Iterator[str]:
    """What `pre_llm_call` returns is added to the message, in order, and not to the history."""
    added = "context of 1\n\ncontext of 3"
    for child, said in ((False, MESSAGE), (True, GOAL)):
        for payload in run.of("pre_llm_call", child=child):
            if said not in str(payload.get("user_message")) or "context of" in str(payload.get("user_message")):
                yield "pre_llm_call: user_message is not what the user said"
            if payload.get("is_first_turn") is not True:
                yield "pre_llm_call: is_first_turn is wrong"
        for payload in run.of("pre_api_request", child=child)[:1]:
            sent = [str(one.get("content")) for one in payload["request_messages"] if one.get("role") == "user"]
            if not sent or not sent[-1].endswith(added):
                yield "pre_api_request: the contexts of pre_llm_call are not behind the user's message, in order"


def verification(run: HostRecording) -> Iterator[str]:
    """`pre_verify` is asked when files changed, and the first answer continues the turn."""
    asked = [(one.get("attempt"), one.get("final_response")) for one in run.of("pre_verify")]
    if asked != [(0, "finished"), (1, "all done")]:
        yield f"pre_verify: attempt and final_response are {asked}"
    if any(not str(path).endswith(FILE) for one in run.of("pre_verify") for path in one["changed_paths"]):
        yield "pre_verify: changed_paths is not the file that was written"
    if not run.requests or run.requests[-1].last_user_text != "check by 1":
        yield "pre_verify: the first answer is not what the model was told"


def answer(run: HostRecording) -> Iterator[str]:
    """The first text of `transform_llm_output` that is not empty is the answer everywhere."""
    texts = [one.get("response_text") for one in run.of("transform_llm_output")]
    final = [one.get("assistant_response") for one in run.of("post_llm_call")]
    if (texts, final) != (["all done"], [ANSWER]):
        yield f"transform_llm_output was given {texts}, post_llm_call {final}; {ANSWER!r} is right"
    if ANSWER not in run.answer:
        yield f"the surface showed {run.answer[-300:]!r}, not {ANSWER!r}"
    for payload in run.of("on_session_end", child=None):
        if not payload.get("completed") or payload.get("interrupted") or payload.get("finish_reason") != "stop":
            yield "on_session_end: the turn was completed"


def family(run: HostRecording) -> Iterator[str]:
    """A child agent has ids of its own, and names those of its parent."""
    turn = {name: run.of("pre_llm_call")[0].get(name) for name in ("session_id", "turn_id", "task_id")}
    for site in ("subagent_start", "subagent_stop"):
        for payload in run.of(site):
            of_parent = {"parent_session_id": turn["session_id"], "parent_turn_id": turn["turn_id"], **turn}
            if any(payload.get(name) != value for name, value in of_parent.items()):
                yield f"{site}: the ids are not those of the turn that delegated"
            if (payload.get("child_goal"), payload.get("tool_call_id")) != (GOAL, "child"):
                yield f"{site}: child_goal or tool_call_id is wrong"
    names = [
        event.name
        for event in run.by_plugin[1]
        if run.child in (event.payload.get("session_id"), event.payload.get("child_session_id"))
    ]
    if names[:1] != ["subagent_start"] or "subagent_stop" not in names[-2:]:
        yield "the events of the child are not between subagent_start and subagent_stop"
    own = {(one.get("turn_id"), one.get("task_id")) for one in run.of("pre_llm_call", child=True)}
    if len(own) != 1 or own & {(turn["turn_id"], turn["task_id"])}:
        yield "the child has no turn and task of its own"
    stopped = run.of("subagent_stop")
    if [(one.get("child_status"), one.get("child_summary")) for one in stopped] != [("completed", "child done by 2")]:
        yield "subagent_stop: child_status or child_summary is wrong"


def identity(run: HostRecording) -> Iterator[str]:
    """Platform, sender and turn are the same in every event."""
    for site in (*HOOKS, *MIDDLEWARE):
        for payload in run.of(site, child=None):
            if payload.get("platform", run.platform) != run.platform:
                yield f"{site}: platform is {payload['platform']!r}, not {run.platform!r}"
    for payload in run.of("pre_llm_call"):
        if payload.get("sender_id") != run.sender:
            yield f"pre_llm_call: sender_id is {payload.get('sender_id')!r}, not {run.sender!r}"
    turns = {one["turn_id"] for site in HOOKS for one in run.of(site) if one.get("turn_id")}
    if len(turns) != 1:
        yield f"one message became the turns {sorted(turns)}"


#: Every check; its first line says what it asks of a host.
def members(run: HostRecording) -> Iterator[str]:
    """`ctx` has every member that plugins use."""
    for event in run.events:
        if event.phase == "load" and event.payload["missing"]:
            yield f"ctx has no {', '.join(event.payload['missing'])}"


def unloading(run: HostRecording) -> Iterator[str]:
    """What `ctx.on_unload` is given runs once for each time a plugin was loaded, after all that it observes."""
    for pid in dict.fromkeys(event.pid for event in run.events):
        for number in run.by_plugin:
            phases = [event.phase for event in run.events if (event.pid, event.plugin) == (pid, number)]
            if (loads := phases.count("load")) != (unloads := phases.count("unload")):
                yield f"plugin {number} was loaded {loads} times and unloaded {unloads} times"
            elif phases and phases[-1] != "unload":
                yield f"plugin {number} was called after it was unloaded"


CHECKS: tuple[Check, ...] = (
    contract,
    delivery,
    same,
    arguments,
    requests,
    traces,
    nesting,
    vetoes,
    outcomes,
    results,
    attempts,
    aside,
    approvals,
    context,
    verification,
    answer,
    family,
    identity,
    members,
    unloading,
)
