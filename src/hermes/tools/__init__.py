"""Tools: what a model can call, how calls are checked, and the six that come with the runtime."""
