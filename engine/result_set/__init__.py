"""The result set loader: turns rows or arrays into batches within limits."""
