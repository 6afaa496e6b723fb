"""Puts plugins into the user's folder, updates and removes them."""
