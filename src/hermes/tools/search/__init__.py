"""Search in files, with ripgrep or in plain Python."""
