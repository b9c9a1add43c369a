"""Scans of files with readers, as batches of one schema."""
