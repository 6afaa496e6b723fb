"""Token use and cost, by session, model and plugin."""
