"""The schema of a scan, from the query, given schemas and the readers."""
