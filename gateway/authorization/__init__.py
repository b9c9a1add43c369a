"""Authorization: decides what an authenticated client may do."""
