"""Transports of MCP connections: stdio, HTTP, and the sign-in at servers over HTTP."""
