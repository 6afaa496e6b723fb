"""Approvals: the gate that every tool call passes before it runs."""
