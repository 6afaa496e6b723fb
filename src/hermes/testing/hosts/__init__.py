"""Conformance of a host: a recording of what it fires, judged by the tables of the contract."""
