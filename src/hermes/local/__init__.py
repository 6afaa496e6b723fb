"""The model that needs nothing: small weights and their runtime, run by a child process on this machine."""
