"""Access control of the A2A server: principals and scopes, rate limits, request time limits, listen address."""
