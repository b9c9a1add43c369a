"""The files of a scan: how they are listed and opened."""
