"""Conversions of values to the promised type of their column, and values for missing ones."""
