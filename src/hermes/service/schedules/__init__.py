"""Schedules: messages that are sent to the agent at set times, and the scheduler that does it."""
