"""The sessions that a replica serves."""
