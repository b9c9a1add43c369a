"""The readers, with one folder for each family of formats, and the registry that chooses a format."""
