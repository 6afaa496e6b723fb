"""Commands of the configuration that run for hooks."""
