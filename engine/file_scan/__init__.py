"""A scan of files in a workspace: its files, schema, partitions and rows."""
