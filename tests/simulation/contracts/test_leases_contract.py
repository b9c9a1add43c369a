"""The contract tests of Leases, run against the model."""

from tests.workspace.test_leases_contract import *  # noqa: F403 - the same tests with other fixtures
