"""A model server on loopback that answers from a script."""
