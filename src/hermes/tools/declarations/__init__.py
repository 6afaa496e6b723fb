"""Declarations: what each tool does with its arguments, how its calls are shown, and where its results come from."""
