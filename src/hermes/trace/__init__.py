"""Runs as traces: what a journaled session shows, and whether it is whole."""
