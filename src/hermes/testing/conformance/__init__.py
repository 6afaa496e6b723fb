"""The conformance kit: a plugin against hostile schedules."""
