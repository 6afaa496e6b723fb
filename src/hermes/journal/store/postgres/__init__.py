"""The journal in a PostgreSQL database, for several machines."""
