"""Files that hold columns with types: Parquet, ORC, Arrow IPC."""
