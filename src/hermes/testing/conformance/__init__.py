"""The conformance kit: a plugin against hostile orders of events."""
