"""Records of past runs, made from the journal."""
