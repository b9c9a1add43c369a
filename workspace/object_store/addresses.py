"""Addresses of workspaces in an object store.

An address has the form ``s3://bucket/prefix?endpoint_override=host:port&scheme=https&region=eu-central-1``. For AWS,
the options after the question mark are not needed. Addresses appear in settings, logs and messages, so they must not
contain credentials. Credentials come from the standard AWS environment variables, profile or role.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()=-]+(/[A-Za-z0-9!_.*'()=-]+)*")
_ENDPOINT = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-fA-F:]+\](:\d{1,5})?")
_REGION = re.compile(r"[a-z0-9-]+")
_OPTIONS = ("endpoint_override", "scheme", "region")


class ObjectAddressError(ValueError):
    """Raised if a URI is not a valid address.

    The message completes a sentence that begins with the URI's name. It does not contain parts of the URI that may be
    secret.
    """


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """A key prefix in a bucket.

    Attributes:
        bucket: The name of the bucket.
        prefix: The key prefix, without slashes at its beginning and end. It is never empty.
        endpoint: The address of an S3 server, in the form ``host`` or ``host:port``. None for AWS.
        scheme: Either ``https`` or ``http``.
        region: The region of the bucket. None means the region in the AWS environment variables.
    """

    bucket: str
    prefix: str
    endpoint: str | None = None
    scheme: str = "https"
    region: str | None = None

    @classmethod
    def from_uri(cls, uri: str) -> Self:
        """Parse a URI.

        Raises:
            ObjectAddressError: If the URI is not a valid address.
        """
        try:
            parts = urlsplit(uri)
        except ValueError as error:
            raise ObjectAddressError("is invalid; use a URI such as s3://bucket/prefix") from error
        if "@" in parts.netloc:
            raise ObjectAddressError(
                "contains credentials; set them with the AWS environment variables or a profile instead, and rotate "
                "them"
            )
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(options.keys() - set(_OPTIONS))
        if unknown:
            raise ObjectAddressError(
                f"has the unknown option [{unknown[0]}]; the known options are {', '.join(_OPTIONS)}"
            )
        _check_options(options)
        bucket, prefix = parts.netloc, parts.path.strip("/")
        if parts.scheme != "s3" or not _BUCKET.fullmatch(bucket) or parts.fragment:
            raise ObjectAddressError("does not name a bucket; use a URI such as s3://bucket/prefix")
        if not _PREFIX.fullmatch(prefix) or any(part in {".", ".."} for part in prefix.split("/")):
            given = f"s3://{bucket}/{prefix}".rstrip("/")
            raise ObjectAddressError(
                f"is [{given}], but must name a prefix in the bucket that only Lodge uses; the prefix may consist of "
                "ASCII letters, digits and !_.*'()=-, such as s3://bucket/lodge"
            )
        return cls(
            bucket, prefix, options.get("endpoint_override"), options.get("scheme", "https"), options.get("region")
        )

    @property
    def storage_path(self) -> str:
        """The URI without its options, in a human-readable form."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def uri(self) -> str:
        """The complete URI, as accepted by :meth:`from_uri`."""
        given = {"endpoint_override": self.endpoint, "scheme": self.scheme, "region": self.region}
        options = {name: value for name, value in given.items() if value not in {None, "https"}}
        return f"{self.storage_path}?{urlencode(options, quote_via=quote)}" if options else self.storage_path


def _check_options(options: Mapping[str, str]) -> None:
    if options.get("scheme", "https") not in {"http", "https"}:
        raise ObjectAddressError("has a scheme that is neither http nor https")
    for name, pattern in (("endpoint_override", _ENDPOINT), ("region", _REGION)):
        if name in options and not pattern.fullmatch(options[name]):
            raise ObjectAddressError(f"has an invalid [{name}]; use for example {_EXAMPLES[name]}")


_EXAMPLES = {"endpoint_override": "endpoint_override=storage.example.com:9000", "region": "region=eu-central-1"}
