"""The cache of session records, on a real API server."""

from tests.workspace.test_record_cache import *  # noqa: F403 - the same tests with other fixtures
