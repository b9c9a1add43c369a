"""Projections: the columns that a query selects, and filters for the columns of readers."""
