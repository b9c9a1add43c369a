"""The readers, in one folder for each family of formats, and the registry of formats."""
