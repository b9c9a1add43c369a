"""The contract of Leases on a real API server."""

from tests.workspace.test_leases_contract import *  # noqa: F403 - the same tests with other fixtures
