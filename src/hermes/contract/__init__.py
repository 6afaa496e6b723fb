"""The plugin contract as data: hooks, middleware kinds, their fields, and the response object plugins read."""
