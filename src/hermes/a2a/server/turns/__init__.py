"""Turns of the agent as tasks of a caller."""
