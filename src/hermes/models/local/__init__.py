"""The embedded model: small weights and their runtime, run by a child process on this machine without a key."""
