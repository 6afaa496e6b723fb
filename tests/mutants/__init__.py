"""Mutants: small wrong versions of the source, each of which the kit or a named test has to find."""
