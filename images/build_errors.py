"""The error of the builds."""


class ImageError(Exception):
    """A command failed. The message has the end of its output."""
