"""The models of a home, side jobs, and ``ctx.llm`` on the host's side."""
