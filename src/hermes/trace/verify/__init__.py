"""Checks that recorded sessions and trace files are whole."""
