"""Session locations in an S3 object store."""
