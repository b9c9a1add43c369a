"""Reads a small document from an HTTP server, with limits of time and size."""

import ssl
import time
from pathlib import Path

import urllib3

from gateway.reloading.last_valid_value import SourceError

_CONNECT_SECONDS = 3.0
_TOTAL_SECONDS = 8.0
_CHUNK_BYTES = 64 * 1024
_OK = 200


def read_url(url: str, *, ca_file: Path | None, max_bytes: int) -> bytes:
    """Return the document at a URL. The function does not follow redirects.

    Args:
        url: The URL, with the scheme http or https.
        ca_file: A file with the certificates that may sign the server's certificate, in addition to the certificates
            of the operating system. None to use only those of the operating system.
        max_bytes: The maximum size of the document.

    Raises:
        SourceError: If the server does not return the document in time.
    """
    deadline = time.monotonic() + _TOTAL_SECONDS
    timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_CONNECT_SECONDS)
    try:
        with (
            urllib3.PoolManager(ssl_context=_tls(ca_file), retries=False, timeout=timeout) as http,
            http.request(
                "GET", url, preload_content=False, redirect=False, headers={"Accept": "application/json"}
            ) as response,
        ):
            if response.status != _OK:
                raise SourceError(f"The URL [{url}] returned the HTTP status {response.status}. Check the URL.")
            content = b""
            while chunk := response.read1(_CHUNK_BYTES):
                content += chunk
                if len(content) > max_bytes:
                    raise SourceError(f"The document at [{url}] has more than {max_bytes:,} bytes. Check the URL.")
                if time.monotonic() > deadline:
                    raise SourceError(f"The server of [{url}] is too slow. Check the server.")
    except urllib3.exceptions.HTTPError as error:
        raise SourceError(f"The URL [{url}] cannot be read: {_reason(error)}. Check the URL and the server.") from None
    return content


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror or error
            raise SourceError(
                f"The CA file [{ca_file}] cannot be used: {reason}. Give a file with PEM certificates."
            ) from None
    return context


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    """Return a description of an error without the representations of library objects."""
    return str(error).rpartition("object at 0x")[2].partition(">: ")[2] or str(error)
