"""Tools of MCP servers: their names, schemas and results."""
