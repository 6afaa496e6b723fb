"""The database of the journal: the port, its connection and tables, and one package per database."""
