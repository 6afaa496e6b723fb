"""The schema of config.yaml: its sections, and other spellings of their settings."""
