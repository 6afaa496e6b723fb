"""Storage of the A2A server: tasks, webhooks, and sessions of contexts, in ``a2a.db``."""
