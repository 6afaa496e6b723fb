"""The commands of a cluster: one worker, all workers, and everything from one configuration."""
