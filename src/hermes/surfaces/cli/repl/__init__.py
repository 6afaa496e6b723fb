"""The interactive chat: its prompt, and what it shows while a turn runs."""
