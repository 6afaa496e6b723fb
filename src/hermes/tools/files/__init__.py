"""File tools: reading, atomic writes, patching, and protected files."""
