"""Markdown that arrives in pieces, as text for a terminal."""
