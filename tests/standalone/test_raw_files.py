"""The scans of ``tests/gateway/scans/test_raw_files.py`` on two executors."""

import pytest

from tests.gateway.scans.test_raw_files import *  # noqa: F403 - all tests

pytestmark = pytest.mark.slow
