"""The OpenAI-compatible API: chat completions, responses and runs, each of them one turn of a session."""
