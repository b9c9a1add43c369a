"""The contract tests of SessionRecords, run against the model."""

from tests.workspace.test_session_records_contract import *  # noqa: F403 - the same tests with other fixtures
