"""Wires: one per request format, each a request builder and an incremental response parser without any I/O."""
