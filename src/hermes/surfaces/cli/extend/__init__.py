"""Commands that extend the agent: plugins, skills, hook commands and MCP servers."""
