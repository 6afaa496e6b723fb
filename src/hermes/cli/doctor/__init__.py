"""``hermes doctor``."""
