"""Request formats: how each is asked, and how its answers are read. None of it does I/O."""
