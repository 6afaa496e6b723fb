"""``hermes a2a``: the agent as a server for other agents, and calls to them."""
