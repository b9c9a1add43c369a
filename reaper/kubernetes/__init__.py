"""The parts of the reaper that need Kubernetes.

These parts are the leader election, the watches, the Kubernetes Events and the status conditions.
"""
