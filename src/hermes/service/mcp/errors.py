"""Errors about MCP servers, as sentences for the user or the model."""

from __future__ import annotations

from hermes.base.errors import HermesError


class McpError(HermesError):
    """Something about an MCP server that the user or the model should know, as a sentence."""


class CallLost(McpError):
    """The server died, or did not answer in time, while a call ran: whether it took effect is not known."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class ServerUnavailable(McpError):
    """The server cannot be reached: nothing was sent to it."""
