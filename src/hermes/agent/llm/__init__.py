"""Models as the agent reaches them beside the conversation: which ones there are, side jobs, and ctx.llm."""
