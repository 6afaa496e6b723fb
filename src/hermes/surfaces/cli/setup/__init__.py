"""Commands that set the agent up: model, keys, settings, permissions, packages and the database."""
