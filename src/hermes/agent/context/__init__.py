"""The context of a turn: its parts, hooks, transcript, system prompt, requests, and compaction to fit the window."""
