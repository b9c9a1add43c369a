"""Kubernetes parts of the reaper: leader election, watches, Events and status conditions."""
