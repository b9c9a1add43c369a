"""The operations of this replica, their responses, and what it hands over when it stops."""
