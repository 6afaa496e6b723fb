"""The HTTP client: connections, proxies, TLS, time limits, and one request with its answer."""
