"""Transports of the A2A server: JSON-RPC, gRPC, and the older version 0.3 of the protocol."""
