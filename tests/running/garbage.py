"""Keeps the garbage collector from reading all modules and collected tests again and again.

A run imports thousands of modules and collects thousands of tests, which live until its end.
"""

import gc
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
