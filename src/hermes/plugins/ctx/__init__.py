"""Parts of ``ctx``: offers of providers, a plugin's own settings and stored values."""
