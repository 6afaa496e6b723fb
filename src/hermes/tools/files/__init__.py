"""Files: reading, writing, patching, and which files must not be touched."""
