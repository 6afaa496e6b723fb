"""Turns on several machines: PostgreSQL holds the journal and the queue, any number of workers run the turns."""
