"""The prompt itself: keys, completion, history, and the two ways to draw it."""
