"""Checkpoints: the state of files before a turn changed them, kept so that the changes can be undone."""
