"""The OpenAI-compatible chat completions format."""
