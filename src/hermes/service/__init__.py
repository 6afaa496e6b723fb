"""Services beside the turns: live turns, dispatch to this process or to workers, schedules, MCP connections."""
