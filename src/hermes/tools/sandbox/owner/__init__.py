"""The owner of a sandbox: caches and services that commands of the owner get, and what the owner is told."""
