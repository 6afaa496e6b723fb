"""The data of the page, read from the journal."""
