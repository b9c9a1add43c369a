"""Writers for the rows and columns of a batch."""
