"""Slash commands, shared by every surface a person types on."""
