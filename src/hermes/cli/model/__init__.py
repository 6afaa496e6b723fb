"""``hermes model``."""
