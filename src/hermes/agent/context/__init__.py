"""Keeps a conversation within the window of its model."""
