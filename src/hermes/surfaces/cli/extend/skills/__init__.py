"""``hermes skills``: skills listed, added, checked and removed."""
