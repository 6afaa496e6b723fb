"""The output of programs, as far as the command line alone determines it."""
