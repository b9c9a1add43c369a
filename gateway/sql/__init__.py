"""Parsers for the SQL of temporary tables: tokens, statements and references."""
