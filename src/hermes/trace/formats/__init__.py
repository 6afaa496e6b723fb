"""Trace formats that other tools read."""
