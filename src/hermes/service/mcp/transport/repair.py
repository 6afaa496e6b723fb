"""Repairs lists of tools that break the protocol in a harmless way, which the SDK would refuse as a whole."""

from __future__ import annotations

from typing import Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse


def repaired(message: SessionMessage) -> SessionMessage:
    """The message, with every schema of a tool list an object, and without tools that have no name."""
    response = message.message
    if not isinstance(response, JSONRPCResponse):
        return message
    tools: Any = response.result.get("tools")
    if isinstance(tools, list):
        named = filter(_has_name, cast("list[Any]", tools))
        response.result["tools"] = list(map(_with_object_schema, named))
    return message


def _has_name(tool: Any) -> bool:
    name: Any = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
    return isinstance(name, str) and name != ""


def _with_object_schema(tool: dict[str, Any]) -> dict[str, Any]:
    schema: Any = tool.get("inputSchema")
    if isinstance(schema, dict) and cast("dict[str, Any]", schema).get("type") == "object":
        return tool
    parts = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    return {**tool, "inputSchema": {**parts, "type": "object"}}
