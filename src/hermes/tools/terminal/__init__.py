"""Commands: the terminal tool, background processes, and the child processes under both."""
