"""Decides who sent an RPC."""

from collections.abc import Sequence

from gateway.authentication.credentials import Context
from gateway.authentication.identity import Identity
from gateway.authentication.method import Method


class Authenticator:
    """The configured authentication methods.

    Args:
        methods: The methods, in the order in which they are tried.
    """

    def __init__(self, methods: Sequence[Method] = ()) -> None:
        self._methods = tuple(methods)

    @property
    def is_configured(self) -> bool:
        """Whether at least one method is configured."""
        return bool(self._methods)

    async def identify(self, context: Context) -> Identity | None:
        """Return the identity of the client that sent an RPC, or None if no method is configured.

        Raises:
            GatewayError: If the client is not authenticated.
        """
        if not self._methods:
            return None
        raise NotImplementedError

    async def start(self) -> None:
        """Start to watch the sources of the methods."""

    async def replace(self, methods: Sequence[Method]) -> None:
        """Replace the methods. Clients that the new methods do not accept are refused from now on."""
        self._methods = tuple(methods)

    async def stop(self) -> None:
        """Stop to watch the sources of the methods."""
