"""Access to models: wires without I/O, credentials, routing, retry policy, circuit breaker, usage and prices."""
