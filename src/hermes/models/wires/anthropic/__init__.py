"""The Anthropic messages format."""
