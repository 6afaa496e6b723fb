"""Replay of recorded runs, with models, tools and users answered from the record."""
