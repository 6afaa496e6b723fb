"""The agent itself: a session runs turns, a turn runs model calls and tool calls, each through its one pipeline."""
