"""Rules on the machine itself: disks, permissions, processes, services and what starts with it."""
