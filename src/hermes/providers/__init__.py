"""How a conversation reaches a model: wires that do no I/O, the driver that does it, and the retry policy."""
