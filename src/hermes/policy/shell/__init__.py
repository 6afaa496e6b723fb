"""Reads a command line as a shell would: syntax, quoting, expansion, redirection."""
