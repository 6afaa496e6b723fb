"""Memory between conversations: notes, and memory providers of plugins."""
