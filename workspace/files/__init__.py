"""Session records, leases and session locations on a file system."""
