"""Live turns: what every surface does with a turn that it did not wait for. Accept, follow, ask, end."""
