"""A TLS server in front of a backend, because Spark Connect has no TLS server of its own.

It decrypts the connections of Lodge and passes the bytes on. It also records the first bytes that arrive on the wire.
"""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

from tests.identity.background_server import BackgroundServer
from tests.identity.certificates import CertificateFiles

_TLS_HANDSHAKE = b"\x16\x03"


class TlsTerminator(BackgroundServer):
    """A context manager that runs the server in a thread of its own.

    Args:
        backend: The address of the backend, ``sc://host:port``.
        certificate: The certificate of the server.
        client_ca: The certificate authority that signs client certificates. None if clients need none.

    Attributes:
        address: The address for Lodge, ``sc://localhost:port/;use_ssl=true``.
        first_bytes: The first bytes of each connection, as they arrived.
        alpn: The application protocol of each connection.
        client_names: The common name in the client certificate of each connection.
    """

    def __init__(self, backend: str, certificate: CertificateFiles, client_ca: Path | None = None) -> None:
        self._host, _, self._port = backend.removeprefix("sc://").rpartition(":")
        self._context = self._new_context(certificate)
        if client_ca is not None:
            self._context.load_verify_locations(client_ca)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self.address = ""
        self.first_bytes: list[bytes] = []
        self.alpn: list[str | None] = []
        self.client_names: list[str] = []

    @staticmethod
    def _new_context(certificate: CertificateFiles) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)
        context.set_alpn_protocols(["h2"])
        return context

    @property
    def uses_only_tls(self) -> bool:
        """Whether each connection so far began with a TLS handshake, and there was at least one."""
        return bool(self.first_bytes) and all(each.startswith(_TLS_HANDSHAKE) for each in self.first_bytes)

    async def start(self) -> None:
        # The inner server decrypts. The outer one sees the bytes on the wire.
        self._inner = await asyncio.start_server(self._decrypted, "127.0.0.1", 0, ssl=self._context)
        self._outer = await asyncio.start_server(self._encrypted, "127.0.0.1", 0)
        self.address = f"sc://localhost:{self._outer.sockets[0].getsockname()[1]}/;use_ssl=true"

    async def stop(self) -> None:
        self._outer.close()
        self._inner.close()

    async def _encrypted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(65536)
        self.first_bytes.append(first)
        await self._relay(reader, writer, "127.0.0.1", self._inner.sockets[0].getsockname()[1], first)

    async def _decrypted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        secure: ssl.SSLObject = writer.get_extra_info("ssl_object")
        self.alpn.append(secure.selected_alpn_protocol())
        certificate = secure.getpeercert() or {}
        names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
        self.client_names += names
        await self._relay(reader, writer, self._host, int(self._port), b"")

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, first: bytes
    ) -> None:
        try:
            upstream, out = await asyncio.open_connection(host, port)
            out.write(first)
            await asyncio.gather(_copy(reader, out), _copy(upstream, writer))
        except OSError:
            pass
        finally:
            writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()
