"""Decides who is an administrator, and who may drop a permanent table.

The decisions use the identity of the request. The groups of a principal can differ between two requests of the same
session, because each request brings its own token.

Without an authentication method, a request has no identity. User ids are then only claims. Therefore nobody is an
administrator, and everybody may drop permanent tables.
"""

from collections.abc import Iterable

from gateway.messages.identity import Identity
from workspace.table_owners import TableOwner

_GROUPS_OF_EVERYBODY = frozenset({"system:authenticated", "system:serviceaccounts", "system:unauthenticated"})


class Authorization:
    """The rules for administrators and owners.

    Args:
        admins: The administrators: principals, and groups in the form ``group:NAME``.
    """

    def __init__(self, admins: Iterable[str] = ()) -> None:
        self._admins = tuple(admins)

    def is_admin(self, identity: Identity | None) -> bool:
        """Return whether an identity is an administrator."""
        return identity is not None and identity.is_member(self._admins)

    def may_drop(self, identity: Identity | None, owner: TableOwner | None) -> bool:
        """Return whether an identity may drop a permanent table.

        Administrators, the owner, and members of a group of the owner may drop a table. Only administrators may drop a
        table without a known owner.

        Args:
            identity: The identity of the request. None without an authentication method.
            owner: The owner of the table. None if no owner was recorded.
        """
        if identity is None or self.is_admin(identity):
            return True
        if owner is None:
            return False
        return identity.principal == owner.principal or not identity.groups.isdisjoint(owner.groups)


def owner_groups(identity: Identity | None) -> tuple[str, ...]:
    """Return the groups of an identity whose members may drop its tables.

    Kubernetes adds some groups to every client. They do not count, because otherwise everybody could drop every table.
    """
    return () if identity is None else tuple(sorted(identity.groups - _GROUPS_OF_EVERYBODY))
