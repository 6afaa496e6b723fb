"""The append-only record of sessions, turns and steps in SQLite: what was done, and what must not be done again."""
