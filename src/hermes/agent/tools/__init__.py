"""Tools that need the session they are called from."""
