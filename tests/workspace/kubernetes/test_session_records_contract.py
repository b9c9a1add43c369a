"""The contract of SessionRecords on a real API server."""

from tests.workspace.test_session_records_contract import *  # noqa: F403 - the same tests with other fixtures
