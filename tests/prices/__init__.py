"""The price data that the project ships: made with ``python -m tests.prices`` from the ``genai-prices`` package."""
