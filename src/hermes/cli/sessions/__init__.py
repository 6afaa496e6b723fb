"""``hermes sessions``: past conversations."""
