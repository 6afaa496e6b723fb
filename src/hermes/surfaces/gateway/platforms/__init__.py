"""Chat platforms: how their adapters are run, and what adapters share."""
