"""Webhooks: tells callers of their tasks."""
