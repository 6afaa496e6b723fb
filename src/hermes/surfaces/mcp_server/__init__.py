"""The agent as an MCP server: other agents and editors run prompts, read sessions and see approvals."""
