"""Placeholder."""

from collections.abc import Sequence

from gateway.sql.recognised import Change


def changes(sql: str, *, double_quoted_identifiers: bool = False) -> Sequence[Change]:
    """Every clause in the text that would create, replace, change or remove a table or view by name, in order."""
    raise NotImplementedError
