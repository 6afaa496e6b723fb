"""``hermes model``: the model shown, listed, set and tested."""
