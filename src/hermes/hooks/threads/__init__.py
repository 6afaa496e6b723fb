"""Threads that plugins' code runs on: time limits, deadlines, and an event loop."""
