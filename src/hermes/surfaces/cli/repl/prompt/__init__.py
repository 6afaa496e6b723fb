"""The prompt: full-screen and line-based display, completion, history."""
