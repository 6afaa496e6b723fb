"""Secrets and private data: where they come from, and where they must not go."""
