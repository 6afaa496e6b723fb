"""Runs: requests accepted as turns, followed while they run, and stored under the ids that clients know."""
