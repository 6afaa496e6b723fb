"""Whether a tool call may run: what the rules say, who is asked, and what the answer means."""
