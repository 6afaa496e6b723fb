"""Shell parser: syntax, quoting, expansion, command substitution, redirection."""
