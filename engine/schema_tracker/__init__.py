"""The schema of a scan, based on the query, the given schemas and the readers."""
