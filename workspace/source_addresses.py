"""The addresses of workspaces in object stores and HDFS, from which statements read raw files.

| form | options |
| --- | --- |
| ``s3://bucket/prefix`` | ``endpoint_override``, ``scheme``, ``region``, ``anonymous`` |
| ``gs://bucket/prefix`` | ``endpoint_override``, ``scheme``, ``anonymous`` |
| ``abfss://container@account.dfs.core.windows.net/prefix`` | ``endpoint_override``, ``scheme`` |
| ``hdfs://host:port/directory`` | |

Guarantee: an address contains no credentials. Each process uses its own identity: that of its environment variables,
its profile, its machine or its pod.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

SCHEMES = ("s3", "gs", "abfss", "hdfs")

_BUCKET = r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]"
_HOST = r"[A-Za-z0-9.-]+(?::\d{1,5})?"
_PLACES = {
    "s3": re.compile(_BUCKET),
    "gs": re.compile(_BUCKET),
    "abfss": re.compile(rf"{_BUCKET}@[a-z0-9]{{3,24}}\.dfs\.[a-z0-9.-]+"),
    "hdfs": re.compile(_HOST),
}
_EXAMPLES = {
    "s3": "s3://bucket/prefix",
    "gs": "gs://bucket/prefix",
    "abfss": "abfss://container@account.dfs.core.windows.net/prefix",
    "hdfs": "hdfs://namenode:8020/directory",
}
_ENDPOINT = re.compile(rf"{_HOST}|\[[0-9a-fA-F:]+\](?::\d{{1,5}})?")
_VALUES: Mapping[str, tuple[re.Pattern[str], str]] = {
    "endpoint_override": (_ENDPOINT, "storage.example.com:9000"),
    "scheme": (re.compile("https?"), "https"),
    "region": (re.compile("[a-z0-9-]+"), "eu-central-1"),
    "anonymous": (re.compile("true|false"), "true"),
}
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "s3": ("endpoint_override", "scheme", "region", "anonymous"),
    "gs": ("endpoint_override", "scheme", "anonymous"),
    "abfss": ("endpoint_override", "scheme"),
}


class SourceAddressError(ValueError):
    """Raised if a URI is not an address.

    The message completes a sentence that begins with the name of the URI. It contains no part that may be secret.
    """


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """A directory in an object store or HDFS.

    Attributes:
        scheme: One of ``SCHEMES``.
        place: The bucket, ``container@account…``, or the host of HDFS.
        prefix: The path of the directory, without slashes at its beginning and end. It may be empty.
        options: The options of the connection.
    """

    scheme: str
    place: str
    prefix: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_uri(cls, uri: str) -> Self:
        """Parse a URI.

        Raises:
            SourceAddressError: If the URI is not an address, or may contain credentials.
        """
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise SourceAddressError("is invalid") from None
        scheme = parts.scheme.lower()
        if scheme not in SCHEMES:
            raise SourceAddressError(f"has an unknown scheme; the schemes are file, {', '.join(SCHEMES)}")
        secret_free = parts.netloc.replace("@", "", 1) if scheme == "abfss" else parts.netloc
        if "@" in secret_free or (scheme == "abfss" and ":" in parts.netloc.partition("@")[0]):
            raise SourceAddressError(
                "contains credentials; give them to the processes as environment variables, a profile or a role "
                "instead, and rotate them"
            )
        prefix = unquote(parts.path).strip("/")
        names = prefix.split("/") if prefix else []
        is_path = all(name not in {"", ".", ".."} and name.isprintable() for name in names)
        if not _PLACES[scheme].fullmatch(parts.netloc) or parts.fragment or not is_path:
            raise SourceAddressError(f"does not name a directory; use a URI such as {_EXAMPLES[scheme]}")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        known = _OPTIONS.get(scheme, ())
        for name, value in options.items():
            if name not in known:
                shown = f"the known options are {', '.join(known)}" if known else "this scheme has no options"
                raise SourceAddressError(f"has an unknown option [{name}]; {shown}")
            pattern, example = _VALUES[name]
            if not pattern.fullmatch(value):
                raise SourceAddressError(f"has an invalid [{name}]; use for example {name}={example}")
        return cls(scheme, parts.netloc, prefix, options)

    @property
    def storage_path(self) -> str:
        """The URI without its options."""
        return f"{self.scheme}://{self.place}/{quote(self.prefix)}".rstrip("/")

    @property
    def uri(self) -> str:
        """The complete URI, as accepted by :meth:`from_uri`."""
        return f"{self.storage_path}?{urlencode(self.options, quote_via=quote)}" if self.options else self.storage_path
