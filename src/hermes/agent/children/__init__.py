"""Child agents: what they are asked, how they run, and what their parent learns."""
