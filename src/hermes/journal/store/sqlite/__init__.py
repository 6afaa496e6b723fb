"""The journal in a SQLite file, for one machine: the default."""
