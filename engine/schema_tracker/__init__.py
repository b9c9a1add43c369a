"""The schema of a scan: what the query wants, what is promised, and what readers produce."""
