"""JSON objects as rows: one object per line, consecutive objects, or an array of objects."""
