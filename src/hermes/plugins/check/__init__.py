"""Judges a plugin without running it."""
