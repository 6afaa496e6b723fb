"""Commands that look at past runs: sessions, traces, recordings, checkpoints, costs and the log."""
