"""Commands that run the agent for others: chat platforms, programs, editors, agents, browsers, schedules, workers."""
