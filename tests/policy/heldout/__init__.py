"""Commands that were written before the rules they test, and kept out of the tuning of the rules."""
