"""What several commands print, and how failures are told."""
