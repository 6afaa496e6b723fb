"""The version, alone in a module so that reading it costs nothing."""

__version__ = "0.20.0"
