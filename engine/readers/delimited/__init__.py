"""Delimited text such as CSV, with or without a header."""
