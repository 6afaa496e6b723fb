"""``hermes skills``."""
