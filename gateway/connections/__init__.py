"""Connections of clients and to backends: TLS, credentials of Lodge itself, and limits. Knows nothing of requests."""
