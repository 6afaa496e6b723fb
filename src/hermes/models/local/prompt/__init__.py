"""Prompts for the embedded model, and the grammar of its answers."""
