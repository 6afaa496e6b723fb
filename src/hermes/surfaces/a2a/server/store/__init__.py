"""Tables of the A2A server in the journal: tasks, messages that started them, sessions of contexts, webhooks."""
