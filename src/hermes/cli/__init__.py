"""The front door: one module per command, imported only when that command runs."""
