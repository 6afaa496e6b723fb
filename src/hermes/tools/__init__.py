"""Tools: registry, validation of arguments, and the six built-in tools."""
