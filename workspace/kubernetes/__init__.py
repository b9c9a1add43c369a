"""Session records, leases and root ids as objects of the Kubernetes API."""
