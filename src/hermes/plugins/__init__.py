"""Finds plugins, loads the enabled ones and gives each its ``ctx``."""
