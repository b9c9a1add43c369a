"""The address of a backend, in the form of Spark's clients."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

_TLS_PARAMETER = "use_ssl"


class BackendAddressError(ValueError):
    """A backend address that does not have the expected form.

    The message shows neither the user information nor the parameters of the address, because they may be secret.
    """

    def __init__(self, address: str) -> None:
        shown = address.partition(";")[0].rpartition("@")[2]
        super().__init__(
            f"The backend address [{shown}] does not have the form sc://HOST:PORT or sc://HOST:PORT/;use_ssl=true."
        )


@dataclass(frozen=True, slots=True)
class BackendAddress:
    """The address of a Spark Connect server. Its string form is canonical.

    Attributes:
        target: The host and the port.
        host: The host.
        uses_tls: Whether the server uses TLS.
    """

    target: str
    host: str
    uses_tls: bool

    @classmethod
    def parse(cls, address: str) -> "BackendAddress":
        """Parse an address.

        Parameters other than ``use_ssl`` are refused, because an address is not secret: it is part of session records
        and log events.

        Raises:
            BackendAddressError: If the address has another form.
        """
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError:
            raise BackendAddressError(address) from None
        path, _, parameters = parts.path.partition(";")
        is_plain = path in {"", "/"} and not (parts.query or parts.fragment or "@" in parts.netloc)
        if parts.scheme != "sc" or not parts.hostname or port is None or not is_plain:
            raise BackendAddressError(address)
        given = parse_qsl(parameters, keep_blank_values=True, separator=";")
        values = {value.lower() for _, value in given}
        if any(name != _TLS_PARAMETER for name, _ in given) or values not in ({"true"}, {"false"}, set()):
            raise BackendAddressError(address)
        return cls(parts.netloc, parts.hostname, "true" in values)

    def __str__(self) -> str:
        return f"sc://{self.target}/;use_ssl=true" if self.uses_tls else f"sc://{self.target}"
