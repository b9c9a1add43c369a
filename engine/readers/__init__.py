"""The readers of files, a folder each format family, and the registry that chooses among them."""
