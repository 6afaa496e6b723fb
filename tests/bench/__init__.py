"""The benches: what the runtime costs, measured against a bare program that does the same work in the same run."""
