"""Writers of rows and columns."""
