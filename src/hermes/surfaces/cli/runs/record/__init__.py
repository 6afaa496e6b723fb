"""Commands that work on recorded runs: replay, fork, test, eval, audit, policy."""
