"""Turns in the journal: accepted, recorded step by step, and recovered after a crash."""
