"""How a conversation reaches a model: wires that do no I/O, the drivers that do it, and the retry policy."""
