"""What programs do with their arguments: launchers, wrappers, interpreters, and what they print."""
