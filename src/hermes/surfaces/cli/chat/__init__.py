"""``hermes chat``: one message answered by the model with its tools, or a prompt for many."""
