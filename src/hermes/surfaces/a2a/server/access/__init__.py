"""Access control of the A2A server: the scopes of its methods, and checks of bodies that the SDK does not make."""
