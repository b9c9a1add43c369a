"""Who did what, for the audit log."""
