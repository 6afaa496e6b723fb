"""What callers may ask for again, in a file."""
