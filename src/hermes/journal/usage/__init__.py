"""What was spent: by session, by model, by plugin."""
