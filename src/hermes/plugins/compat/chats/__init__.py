"""Names for chat platforms: what adapters share, what arrives, and what waits for an answer in a chat."""
