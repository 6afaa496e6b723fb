"""``hermes auth``: keys and sign-ins of providers."""
