"""Streaming Markdown renderer for the terminal (CommonMark subset)."""
