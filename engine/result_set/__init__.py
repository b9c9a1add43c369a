"""The result set loader, which turns rows or Arrow arrays into batches within limits."""
