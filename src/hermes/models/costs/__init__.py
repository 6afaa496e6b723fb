"""Tokens and costs of model calls."""
