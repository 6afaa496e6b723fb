"""Evidence of runs: seals, files that are verified offline, and policies judged by recorded calls."""
