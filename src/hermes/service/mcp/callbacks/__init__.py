"""Requests of MCP servers to their client: for a model's answer, or for the user's."""
