"""Projections: which columns a query selects, and what a reader should do with each column that it offers."""
