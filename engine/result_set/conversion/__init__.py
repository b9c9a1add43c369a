"""Conversions to the promised type of a column, and defaults."""
