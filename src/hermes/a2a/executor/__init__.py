"""A Hermes model as an A2A agent inside somebody else's server."""
