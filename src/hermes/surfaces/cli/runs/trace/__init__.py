"""``hermes trace``: past runs listed, drawn, exported, followed, verified and compared."""
