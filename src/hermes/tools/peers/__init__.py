"""Client for other agents over A2A. The SDK is imported only when one is called."""
