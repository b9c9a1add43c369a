"""Decodes plans, and finds the SQL text in a plan."""
