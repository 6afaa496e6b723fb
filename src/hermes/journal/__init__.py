"""The append-only record of sessions, turns and steps: what was done, and what must not be done again."""
