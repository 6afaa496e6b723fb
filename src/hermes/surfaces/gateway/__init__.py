"""The gateway: the agent on chat platforms. Each message becomes a turn of its chat's session."""
