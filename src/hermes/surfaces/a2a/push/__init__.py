"""Webhooks: notifications about tasks for their callers."""
