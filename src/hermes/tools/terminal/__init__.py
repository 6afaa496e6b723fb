"""Commands: the terminal tool, background processes, child processes in process groups, bounded output."""
