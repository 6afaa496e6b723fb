"""``ctx.llm``: a plugin's access to the user's model."""
