"""The identities of roots."""

import pytest

from tests.workspace.in_memory_root_ids import InMemoryRootIds
from workspace.root_identities import RootIdentities, RootUnavailableError


def test_another_id_is_refused_even_if_the_recorded_id_is_empty() -> None:
    identities = RootIdentities(InMemoryRootIds())
    identities.check("/root", "")
    identities.check("/root", "")
    with pytest.raises(RootUnavailableError):
        identities.check("/root", "other")
