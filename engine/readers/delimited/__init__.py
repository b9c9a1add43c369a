"""Text with delimiters: CSV and its relatives, with a header or as the one column ``columns``."""
