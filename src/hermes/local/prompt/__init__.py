"""What the embedded model is shown, and what it may write."""
