"""Other agents, reached with the A2A protocol. Only what calls them imports the A2A SDK."""
