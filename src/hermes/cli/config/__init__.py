"""``hermes config``: shows the configuration and changes it."""
