"""The functions behind the slash commands."""
