"""Reads each statement once, and decides what happens to it."""
