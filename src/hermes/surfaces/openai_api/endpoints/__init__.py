"""The endpoints of the API: chat completions, responses, runs."""
