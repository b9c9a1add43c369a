"""Signed requests to an S3 server, with retries.

Guarantees:

1. A request ends, with a response or an error, within ``ATTEMPTS`` times the timeouts.
2. Messages, errors and log events never contain credentials, signatures or headers.

The client can be shared between threads, but not with a forked process. Signatures and credentials are handled by
AWS's own library (``awscrt``), because mistakes in them would be dangerous. The library finds credentials in
environment variables, a profile, a web identity, the container or the instance.

Source: [s3-api].
"""

import errno
import hashlib
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

import urllib3
from awscrt import auth
from awscrt.http import HttpHeaders, HttpRequest

from workspace.object_store.addresses import ObjectAddress
from workspace.retries import retry_on

ATTEMPTS = 3
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
_FIRST_PAUSE_SECONDS = 0.8
_LONGEST_PAUSE_SECONDS = 2.0
_CREDENTIALS_SECONDS = 15.0
_CONNECTIONS = 16
_TRANSIENT_STATUSES = {429, 500, 502, 503, 504}
_TRANSIENT_CODES = {"RequestTimeout", "SlowDown", "ConditionalRequestConflict", "OperationAborted"}
_CODE = re.compile(r"[A-Za-z]+|\d{3}")
_REMEDIES = {
    "AccessDenied": "Give Lodge's credentials the permissions that are listed in docs/how-to/object-storage.md.",
    "InvalidAccessKeyId": "Correct the credentials.",
    "SignatureDoesNotMatch": "Correct the credentials or the region.",
    "NoSuchBucket": "Create the bucket, or correct the URI of the workspace.",
    "PermanentRedirect": "Correct the region in the URI of the workspace.",
    "AuthorizationHeaderMalformed": "Correct the region in the URI of the workspace.",
}


class ObjectStoreError(OSError):
    """Raised if a request to the object store failed.

    Attributes:
        message: The error message.
        code: The error code of the server, such as ``AccessDenied``. Empty if the server did not respond.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(errno.EACCES if code == "AccessDenied" else errno.EIO, message)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message


class _TransientError(ObjectStoreError):
    """Raised if a request failed for a transient reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of the server.

    Attributes:
        status: The HTTP status.
        content: The body of the response.
        code: The error code in the body. Empty if there is no error code.
    """

    status: int
    content: bytes
    code: str


class S3Client:
    """A client for one bucket.

    Args:
        address: The address that contains the bucket.
        read_seconds: The time to wait for a response.

    Attributes:
        bucket: The name of the bucket.
        host: The address of the server, for error messages.
    """

    def __init__(self, address: ObjectAddress, *, read_seconds: float = READ_SECONDS) -> None:
        self.bucket = address.bucket
        self._region = (
            address.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        )
        url = urllib3.util.parse_url(f"{address.scheme}://{address.endpoint or f's3.{self._region}.amazonaws.com'}")
        self.host = url.netloc or ""
        self._connections = urllib3.connection_from_url(
            url.url,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
            maxsize=_CONNECTIONS,
            retries=False,
            **({"ca_certs": os.environ.get("AWS_CA_BUNDLE")} if address.scheme == "https" else {}),
        )
        self._credentials = auth.AwsCredentialsProvider.new_default_chain()

    def send(
        self,
        method: str,
        key: str,
        content: bytes = b"",
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        accepted: Mapping[HTTPStatus, str] | None = None,
    ) -> Answer:
        """Send a request, and retry it after transient errors.

        Args:
            method: The HTTP method.
            key: The key of the object. Empty for a request to the bucket.
            content: The body of the request.
            query: The query parameters.
            headers: Additional headers.
            accepted: The HTTP error statuses that are returned and not raised, each with the error code that the
                response may contain.

        Raises:
            ObjectStoreError: If the server refuses the request or cannot be reached.
        """
        target = f"/{self.bucket}/{quote_text(key)}" if key else f"/{self.bucket}"
        if query:
            parts = (f"{quote_text(name, '')}={quote_text(value, '')}" for name, value in sorted(query.items()))
            target = f"{target}?{'&'.join(parts)}"

        @retry_on(
            _TransientError,
            attempts=ATTEMPTS,
            first_pause_seconds=_FIRST_PAUSE_SECONDS,
            longest_pause_seconds=_LONGEST_PAUSE_SECONDS,
        )
        def attempt() -> Answer:
            try:
                answer = self._send_once(method, target, content, headers or {})
            except urllib3.exceptions.HTTPError as error:
                raise _TransientError(
                    f"The object store at [{self.host}] cannot be reached: {type(error).__name__}. "
                    "Check the server and the network."
                ) from error
            if answer.status < HTTPStatus.MULTIPLE_CHOICES and answer.code in {"", "NoSuchKey"}:
                return answer
            if any(answer.status == status and answer.code in {code, ""} for status, code in (accepted or {}).items()):
                return answer
            is_transient = answer.status in _TRANSIENT_STATUSES or answer.code in _TRANSIENT_CODES
            error_type = _TransientError if is_transient else ObjectStoreError
            raise self.refusal(f"{method} of", answer.code or str(answer.status), error_type)

        return attempt()

    def parse_xml(self, answer: Answer) -> ET.Element:
        """Parse the body of a response as XML.

        Raises:
            ObjectStoreError: If the body is not valid XML.
        """
        try:
            return ET.fromstring(answer.content)  # noqa: S314 - the server is trusted with all the data
        except ET.ParseError as error:
            raise ObjectStoreError(
                f"The response of the server at [{self.host}] is not XML, so the server is not an S3 server. Correct "
                "the URI of the workspace."
            ) from error

    def refusal(
        self, action: str, code: str | None, error_type: type[ObjectStoreError] = ObjectStoreError
    ) -> ObjectStoreError:
        """Return the error for a request that the server refused.

        The message contains an instruction for the operator.
        """
        shown = code if code and _CODE.fullmatch(code) else "an unknown reason"
        return error_type(
            f"The object store at [{self.host}] refused {action} objects in bucket [{self.bucket}]: {shown}. "
            f"{_REMEDIES.get(shown, 'Check the log of the server.')}",
            shown,
        )

    def _send_once(self, method: str, target: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        response = self._connections.urlopen(
            method, target, body=content, headers=self._sign(method, target, content, headers), redirect=False
        )
        data = response.data
        is_error = response.status >= HTTPStatus.MULTIPLE_CHOICES or b"<Error>" in data[:400]
        code = re.search(rb"<Code>([A-Za-z]+)</Code>", data) if is_error and b"<Error>" in data else None
        return Answer(response.status, data, code[1].decode() if code else "")

    def _sign(self, method: str, target: str, content: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        request = HttpRequest(method, target, HttpHeaders([("host", self.host), *headers.items()]))
        config = auth.AwsSigningConfig(
            auth.AwsSigningAlgorithm.V4,
            credentials_provider=self._credentials,
            region=self._region,
            service="s3",
            use_double_uri_encode=False,
            should_normalize_uri_path=False,
            signed_body_header_type=auth.AwsSignedBodyHeaderType.X_AMZ_CONTENT_SHA_256,
            signed_body_value=hashlib.sha256(content).hexdigest(),
        )
        try:
            return dict(auth.aws_sign_request(request, config).result(_CREDENTIALS_SECONDS).headers)
        except Exception as error:  # awscrt raises its own type, whose base is Exception
            raise ObjectStoreError(
                f"There are no credentials for the object store ({type(error).__name__}). Set them with the AWS "
                "environment variables (AWS_ACCESS_KEY_ID, ...), a profile, or a role."
            ) from error


def quote_text(text: str, safe: str = "/") -> str:
    """Quote a string for a URL, as required by Signature Version 4."""
    return quote(text, safe=f"{safe}-_.~", errors="surrogatepass")
