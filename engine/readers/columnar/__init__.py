"""Formats with typed columns: Parquet, ORC and Arrow IPC."""
