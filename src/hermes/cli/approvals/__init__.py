"""``hermes approvals``: what may run without asking, and what was asked."""
