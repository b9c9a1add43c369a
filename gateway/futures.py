"""Helpers for futures and tasks of asyncio."""

import asyncio
from typing import Any


def retrieve_error(future: "asyncio.Future[Any]") -> None:
    """Retrieve the error of a completed future that nobody may wait for, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
