"""Limits what clients may use at the same time: requests, statements, sessions and memory."""
