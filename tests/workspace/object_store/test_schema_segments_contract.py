"""The contract of remembered schemas on a real S3 server."""

from tests.workspace.test_schema_segments_contract import *  # noqa: F403

del storage  # noqa: F821 - that of this folder is an object store
