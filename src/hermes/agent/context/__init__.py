"""The context of a turn: transcript, system prompt, requests to the model, and compaction to fit its window."""
