"""Determines the identity of a client from its credentials."""
