"""``hermes plugins``: list, enable, install, check and start plugins."""
