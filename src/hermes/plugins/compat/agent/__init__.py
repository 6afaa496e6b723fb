"""Names of the agent: its engines, its model calls, agents that a plugin starts, commands that are skills."""
