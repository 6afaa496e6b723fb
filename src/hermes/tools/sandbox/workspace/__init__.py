"""The workspace of a sandbox: its folders, and the git repositories in it."""
