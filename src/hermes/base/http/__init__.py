"""HTTP/1.1 client: connection pool, proxies, TLS, deadlines, interrupts, and an SSRF guard with one DNS look-up.

``client.HttpClient`` is the front door; everything that sends a request uses it. The first request imports sockets.
"""
