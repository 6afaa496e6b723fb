"""``/v1/runs``: turns that are started, followed, approved and stopped with separate requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hermes.surfaces.openai_api.answers import usage_document
from hermes.surfaces.openai_api.call import ApiCall
from hermes.surfaces.openai_api.content import read_input
from hermes.surfaces.openai_api.documents import ApprovalDocument, RunRequest, check_model, read_document
from hermes.surfaces.openai_api.errors import ServerStopped
from hermes.surfaces.openai_api.runs.acceptance import ApiRuns, RunOrder
from hermes.surfaces.openai_api.runs.run import ApiRun, RunEvent
from hermes.surfaces.openai_api.sse import PING, SseResponse, encode_event

_ENDS = {
    "completed": "run.completed",
    "incomplete": "run.completed",
    "failed": "run.failed",
    "interrupted": "run.cancelled",
}


async def create_run(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``POST /v1/runs``: accepted, to be followed by its id."""
    call.need("send")
    asked = read_document(call.body, RunRequest)
    model = check_model(asked.model, call.models)
    order = RunOrder(
        kind="run",
        conversation=read_input(asked.input, asked.instructions),
        document={"model": model},
        session_id=asked.session_id or "",
        previous_response_id=asked.previous_response_id or "",
        **call.order_fields(),
    )
    run = await runs.accept(order)
    return JSONResponse(run_document(run, call), 202, {"Location": f"/v1/runs/{run.id}"})


async def get_run(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``GET /v1/runs/{id}``."""
    call.need("read")
    run = await runs.find(call.principal, request.path_params["id"])
    return JSONResponse({**run_document(run, call), "waiting_for": await runs.waiting_for(run)})


async def run_events(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``GET /v1/runs/{id}/events``. ``Last-Event-ID`` continues a stream that was cut off."""
    call.need("read")
    run = await runs.find(call.principal, request.path_params["id"])
    last = call.headers.get("last-event-id", "")
    start = min(int(last) + 1, run.event_count) if last.isdecimal() and len(last) < 10 else 0

    async def nothing() -> None:
        """A reader that goes stops nothing."""

    return SseResponse(_events(run, call, start), nothing, {"X-Hermes-Session-Id": run.row.session_id})


async def approve_run(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``POST /v1/runs/{id}/approval``."""
    call.need("send")
    run = await runs.find(call.principal, request.path_params["id"])
    question_id = await runs.answer(run, call.principal, read_document(call.body, ApprovalDocument))
    return JSONResponse({"run_id": run.id, "answered": question_id})


async def stop_run(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``POST /v1/runs/{id}/stop``."""
    call.need("cancel")
    run = await runs.find(call.principal, request.path_params["id"])
    if await runs.stop(run, "the client stopped the run"):
        await run.wait()
    return JSONResponse(run_document(run, call))


def run_document(run: ApiRun, call: ApiCall) -> dict[str, Any]:
    """The run as it is now."""
    result = run.result
    failed = call.failure(result)
    return {
        "id": run.id,
        "run_id": run.id,
        "object": "hermes.run",
        "status": run.status,
        "session_id": run.row.session_id,
        "model": run.row.document["model"],
        "created_at": int(run.row.created_at),
        "output": None if result is None or failed is not None else result.answer,
        "usage": None if result is None else usage_document(result.usage),
        "error": None if failed is None else failed.document()["error"],
    }


async def _events(run: ApiRun, call: ApiCall, start: int) -> AsyncGenerator[bytes]:
    try:
        async for first, batch in run.events(start):
            if not batch:
                yield PING
            for number, event in enumerate(batch, first):
                yield _encoded(run, call, event, number)
    except ServerStopped as stopped:
        yield encode_event({"event": "error", "run_id": run.id, **stopped.document()}, event="error")


def _encoded(run: ApiRun, call: ApiCall, event: RunEvent, number: int) -> bytes:
    name, fields = event.name, event.data
    if not name and run.result is not None:
        name, fields = _ENDS[run.result.status], run_document(run, call)
    document = {"event": name, "run_id": run.id, "timestamp": event.at, **fields}
    return encode_event(document, event=name, number=number)
