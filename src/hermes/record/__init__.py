"""Recorded runs: replayed, forked, compared, kept as tests and sealed as evidence."""
