"""Builds of the container images."""
