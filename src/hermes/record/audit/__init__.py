"""Evidence of runs in files that are verified offline, and policies judged by recorded calls."""
