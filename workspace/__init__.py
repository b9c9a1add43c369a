"""Shared storage of gateway and reaper: workspaces, session locations, session records and leases."""
