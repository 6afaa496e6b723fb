"""A Hermes model as an A2A agent, for a server built with the A2A SDK."""
