"""Subcommands that are one module each."""
