"""Tools: the registry, toolsets, validation of arguments, and the tools that need no session."""
