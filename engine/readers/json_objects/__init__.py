"""JSON objects as rows: one on each line, one after another, or in an array."""
