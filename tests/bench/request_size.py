"""How large a request is before the user has said anything: the system prompt and the tool schemas."""

from __future__ import annotations

from typing import Any

import msgspec

from .server import Plan
from .table import Row
from .workspace import Workspace

#: As in ``tests/agent/test_request_economy.py``.
BUDGET_BYTES = 6_000


def measure(workspace: Workspace) -> list[Row]:
    """One row, taken from the request as it arrived at the server."""
    plan = Plan()
    workspace.report()
    workspace.chat(plan, "--toolsets", "default")
    body = workspace.report().body
    request: dict[str, Any] = msgspec.json.decode(body)
    prompt = len(request["messages"][0]["content"].encode())
    schemas = len(msgspec.json.encode(request["tools"]))
    size = len(body.encode()) - len(plan.query())
    names = ", ".join(tool["function"]["name"] for tool in request["tools"])
    note = f"system prompt {prompt:,} bytes, schemas {schemas:,} bytes ({names})"
    budget = f"≤ {BUDGET_BYTES / 1000:g} kB"
    return [Row("default request, the tools of a fresh home", size, None, "bytes", budget, size <= BUDGET_BYTES, note)]
