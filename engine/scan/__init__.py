"""Scans, which read files with readers and return batches with a single schema."""
