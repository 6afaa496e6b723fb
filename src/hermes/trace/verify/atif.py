"""Checks an ATIF v1.7 document: the rules of the format, and those that a whole run keeps beyond them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from hermes.trace.formats.atif import SCHEMA_VERSION

Fields = dict[str, Any]


class Shape(NamedTuple):
    """The fields of one kind of object."""

    required: tuple[str, ...]
    optional: tuple[str, ...]


_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")

_TRAJECTORY = Shape(
    required=("schema_version", "agent", "steps"),
    optional=(
        "session_id",
        "trajectory_id",
        "notes",
        "final_metrics",
        "continued_trajectory_ref",
        "extra",
        "subagent_trajectories",
    ),
)
_AGENT = Shape(("name", "version"), ("model_name", "tool_definitions", "extra"))
_STEP = Shape(
    ("step_id", "source", "message"),
    ("timestamp", *_AGENT_ONLY, "observation", "is_copied_context", "extra", "llm_call_count"),
)
_CALL = Shape(("tool_call_id", "function_name", "arguments"), ("extra",))
_RESULT = Shape((), ("source_call_id", "content", "subagent_trajectory_ref", "extra"))
_REFERENCE = Shape((), ("trajectory_id", "trajectory_path", "session_id", "extra"))
_SUMS = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
}


def check_atif(document: object) -> list[str]:
    """The problems of a document, as text; none when it is valid."""
    if not isinstance(document, dict):
        return ["the document is not a JSON object"]
    return list(_trajectory(cast("Fields", document), ""))


def _trajectory(document: Fields, where: str) -> Iterator[str]:
    yield from problems_of(document, _TRAJECTORY, where or "document")
    if document.get("schema_version") != SCHEMA_VERSION:
        yield f"{where}schema_version is {document.get('schema_version')!r}, expected {SCHEMA_VERSION!r}"
    agent = _object(document.get("agent"))
    yield from problems_of(agent, _AGENT, f"{where}agent")
    steps = _objects(document.get("steps"))
    if not steps:
        yield f"{where}steps: there is none"
    for number, step in enumerate(steps, start=1):
        yield from _step(step, number, f"{where}step {number}")
    children = _objects(document.get("subagent_trajectories"))
    yield from _references(steps, children, where)
    yield from _metrics(document, steps, children, where)
    for child in children:
        yield from _trajectory(child, f"{where}{child.get('trajectory_id') or '?'}: ")


def _step(step: Fields, number: int, where: str) -> Iterator[str]:
    yield from problems_of(step, _STEP, where)
    if step.get("step_id") != number:
        yield f"{where}: step_id is {step.get('step_id')!r}, expected {number}"
    source = step.get("source")
    if source not in ("system", "user", "agent"):
        yield f"{where}: source is {source!r}; allowed: system, user, agent"
    for name in _AGENT_ONLY:
        if source != "agent" and name in step:
            yield f"{where}: {name} belongs to steps of the agent only"
    if step.get("llm_call_count") == 0 and not {"metrics", "reasoning_content"}.isdisjoint(step):
        yield f"{where}: no model was called, yet it has metrics or reasoning"
    calls = _objects(step.get("tool_calls"))
    for call in calls:
        yield from problems_of(call, _CALL, f"{where}, call {call.get('tool_call_id')}")
        if not isinstance(call.get("arguments"), dict):
            yield f"{where}, call {call.get('tool_call_id')}: arguments are not an object"
    yield from _results(calls, _results_of(step), where)


def _results(calls: list[Fields], results: list[Fields], where: str) -> Iterator[str]:
    asked = Counter(call.get("tool_call_id") for call in calls)
    answered = Counter(result.get("source_call_id") for result in results if result.get("source_call_id") is not None)
    for result in results:
        yield from problems_of(result, _RESULT, f"{where}, result of {result.get('source_call_id')}")
    for call_id, count in asked.items():
        if count > 1:
            yield f"{where}: call {call_id} is there {count} times"
        if answered[call_id] != 1:
            yield f"{where}: call {call_id} has {answered[call_id]} results instead of one"
    for call_id in answered:
        if call_id not in asked:
            yield f"{where}: the result of {call_id} belongs to no call of the step"


def _references(steps: list[Fields], children: list[Fields], where: str) -> Iterator[str]:
    embedded = Counter(child.get("trajectory_id") for child in children)
    for name, count in embedded.items():
        if name is None:
            yield f"{where}an embedded trajectory has no trajectory_id"
        elif count > 1:
            yield f"{where}trajectory {name} is embedded {count} times"
    references: Counter[Any] = Counter()
    for step in steps:
        for result in _results_of(step):
            for reference in _objects(result.get("subagent_trajectory_ref")):
                place = f"{where}step {step.get('step_id')}"
                yield from problems_of(reference, _REFERENCE, f"{place}, reference")
                name = reference.get("trajectory_id")
                references[name] += 1
                if name is None and reference.get("trajectory_path") is None:
                    yield f"{place}: a reference has neither trajectory_id nor trajectory_path"
                elif name is not None and name not in embedded and reference.get("trajectory_path") is None:
                    yield f"{place}: trajectory {name} is referenced and not embedded"
    for name in embedded:
        if references[name] != 1:
            yield f"{where}trajectory {name} is referenced {references[name]} times instead of once"


def _metrics(document: Fields, steps: list[Fields], children: list[Fields], where: str) -> Iterator[str]:
    final = _object(document.get("final_metrics"))
    if not final:
        return
    per_step = [_object(step.get("metrics")) for step in steps]
    if final.get("total_steps") not in (None, len(steps)) and not document.get("notes"):
        yield f"{where}final_metrics: total_steps is {final['total_steps']}, there are {len(steps)}"
    for total, name in _SUMS.items():
        found = sum(one.get(name) or 0 for one in per_step)
        if final.get(total) is not None and final[total] != found:
            yield f"{where}final_metrics: {total} is {final[total]}, the steps have {found}"
    costs = [one.get("cost_usd") for one in per_step]
    costs += [_object(child.get("final_metrics")).get("total_cost_usd") for child in children]
    cost = sum(one for one in costs if one is not None)
    if final.get("total_cost_usd") is not None and abs(final["total_cost_usd"] - cost) > 1e-9:
        yield f"{where}final_metrics: total_cost_usd is {final['total_cost_usd']}, steps and children have {cost}"


def _results_of(step: Fields) -> list[Fields]:
    return _objects(_object(step.get("observation")).get("results"))


def _object(value: object) -> Fields:
    return cast("Fields", value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[Fields]:
    return (
        [cast("Fields", item) for item in cast("list[Any]", value) if isinstance(item, dict)]
        if isinstance(value, list)
        else []
    )


def problems_of(found: Fields, shape: Shape, where: str) -> Iterator[str]:
    """Fields that are missing, null though required, or not part of the format."""
    for name in shape.required:
        if found.get(name) is None:
            yield f"{where}: {name} is missing"
    for name in found:
        if name not in shape.required and name not in shape.optional:
            yield f"{where}: {name!r} is not a field of the format"
