"""The sandbox: limits what a command can read, write and connect to, with bubblewrap or Landlock."""
