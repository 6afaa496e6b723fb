"""The two pipelines of a turn: model calls and tool calls."""
