"""Images that users send, that models cannot see, and that tools make."""
