"""What a gateway keeps for the one that replaces it (gateway.reloading.source_memory)."""

from gateway.reloading.source_memory import KeptSource, SourceMemory
from tests.gateway.reloading.memory import Memory


def test_older_content_does_not_replace_a_later_one() -> None:
    """A read that hangs can end after a later one."""
    kept = Memory()
    memory = SourceMemory(kept)
    memory.keep("file", KeptSource(b"late", 2.0))
    memory.keep("file", KeptSource(b"early", 1.0))
    assert kept.read() == {"file": KeptSource(b"late", 2.0)}


def test_gateway_that_dies_during_its_start_keeps_the_other_sources() -> None:
    kept = Memory()
    first = SourceMemory(kept)
    for name in ("a", "b", "removed"):
        first.keep(name, KeptSource(name.encode(), 1.0))
    SourceMemory(kept).keep("a", KeptSource(b"new", 2.0))
    third = SourceMemory(kept)
    assert third.of_former_gateway("b") == KeptSource(b"b", 1.0)
    for name in ("a", "b"):
        third.keep(name, KeptSource(b"new", 3.0))
    third.forget_former_gateway()
    third.keep("a", KeptSource(b"new", 4.0))
    assert sorted(kept.read()) == ["a", "b"]
