"""Stored credentials: keys and OAuth sign-ins of a provider, the pool that leases them, and token refresh."""
