"""The surfaces: each maps something outside, a person, a program or another agent, onto turns."""
