"""How a conversation reaches a model: wires that do no I/O, the HTTP client, credentials, and the retry policy."""
