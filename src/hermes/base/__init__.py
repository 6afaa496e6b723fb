"""The ground floor: configuration, redaction, log, scope, errors, version, and HTTP, imported by all."""
