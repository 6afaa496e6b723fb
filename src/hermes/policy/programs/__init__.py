"""Program models: launchers, wrappers, interpreters, and the output of programs."""
