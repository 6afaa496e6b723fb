"""Code of other languages: what it may do, as far as its text shows."""
