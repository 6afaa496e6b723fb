"""``hermes trace``."""
