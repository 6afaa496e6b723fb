"""``hermes gateway``: the agent on chat platforms, and the users that may talk to it there."""
