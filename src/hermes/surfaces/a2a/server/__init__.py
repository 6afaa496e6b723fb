"""The whole agent as an A2A server: one task for each turn, sessions for contexts, approvals as questions."""
