"""Stored credentials: several keys and sign-ins for a provider, which of them is used next, and how they stay valid."""
