"""JSON: objects as rows, one a line, one after the other, or in an array."""
