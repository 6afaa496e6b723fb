"""``hermes doctor``: checks of the installation, the home and everything that is configured."""
