"""Plans scans: which files they read, and which schema these files have together."""
