"""What is shown of a turn: its text, its tool calls, and the status line."""
