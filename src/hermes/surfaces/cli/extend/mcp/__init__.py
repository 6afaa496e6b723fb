"""``hermes mcp``: MCP servers as tools of the agent, and the agent as an MCP server."""
