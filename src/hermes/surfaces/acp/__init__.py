"""The agent in an editor, over the Agent Client Protocol."""
