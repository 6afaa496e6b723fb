"""Skills: folders with a ``SKILL.md`` that teach the agent a task, listed briefly and loaded on use."""
