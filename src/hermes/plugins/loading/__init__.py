"""Loading of plugins: found, described by a manifest, chosen, imported."""
