"""``hermes hooks``: hook commands, the consent to run them, and the hook contract."""
