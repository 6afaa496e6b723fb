"""Names for the machine: files, addresses, secrets and programs that a plugin asks about, and its terminal."""
