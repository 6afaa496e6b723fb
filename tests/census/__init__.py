"""The census: published plugins on this host, one distribution at a time (``python -m tests.census FOLDER``)."""
