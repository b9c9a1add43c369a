"""What each principal uses at present.

An account exists only while its principal has an open call or a running statement. Therefore, the number of accounts is
at most the number of open calls and statements, even if clients make up principals.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from workspace.identifiers import Principal


@dataclass(slots=True, eq=False)
class Account:
    """The resources that one principal currently uses.

    Attributes:
        principal: The principal. None for the account of all principals together.
        requests: Open calls.
        statements: Running statements.
        request_bytes: The size of the requests in memory.
        response_bytes: The size of the responses in memory.
    """

    principal: Principal | None
    requests: int = 0
    statements: int = 0
    request_bytes: int = 0
    response_bytes: int = 0


class Accounts:
    """The accounts of all principals that currently use the gateway.

    Attributes:
        total: The resources that all principals use together.
    """

    def __init__(self) -> None:
        self.total = Account(None)
        self._by_principal: dict[Principal, Account] = {}

    def __len__(self) -> int:
        return len(self._by_principal)

    def __iter__(self) -> Iterator[Account]:
        return iter(self._by_principal.values())

    def find_or_add(self, principal: Principal) -> Account:
        """Return the account of a principal."""
        account = self._by_principal.get(principal)
        if account is None:
            account = self._by_principal[principal] = Account(principal)
        return account

    def discard_if_unused(self, account: Account) -> None:
        """Discard an account whose principal has neither an open call nor a running statement."""
        if not account.requests and not account.statements and account.principal is not None:
            self._by_principal.pop(account.principal, None)


def principal_of(account: Account | None) -> Principal | None:
    """Return the principal of an account. None if it is not known."""
    return None if account is None else account.principal
