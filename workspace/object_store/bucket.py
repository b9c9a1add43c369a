"""An S3 bucket: the few requests that session locations need, with keys taken as they are.

Why it exists: session locations hold whatever keys their owners wrote, and must be removed with nothing else. File-like
layers over S3 cannot promise that: they read ``..`` and empty names as parts of a path, and make keys of their own to
look like directories. Here a key is a text and nothing more.

Guarantees:

1. A key goes to the server exactly as it came from there; what is deleted was listed below the prefix that was asked.
2. A request ends, with an answer or an error, within ``ATTEMPTS`` times the timeouts.
3. No message, error or log line has a credential, a signature or a header in it.

Not guaranteed: keys that are not UTF-8; S3 has none.

All methods block, and raise ObjectStoreError, which is an OSError. Safe to share between threads, not between processes
that were forked. S3 is consistent: what was written or deleted is seen by the next request, whoever sends it.

Source: Amazon S3 API reference; Signature Version 4 is AWS's own (``awscrt``), and so is the way to credentials:
environment variables, profile, web identity, container, instance.
"""

import base64
import errno
import hashlib
import http
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus
from xml.sax.saxutils import escape

import tenacity
import urllib3
from awscrt import auth
from awscrt.http import HttpHeaders, HttpRequest

from workspace.object_store.addresses import ObjectAddress

ATTEMPTS = 3
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
_LONGEST_PAUSE_SECONDS = 2.0
_CREDENTIALS_SECONDS = 15.0
_CONNECTIONS = 16
_PAGE = 1000
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_PASSING = {429, 500, 502, 503, 504}
_PASSING_CODES = {"RequestTimeout", "SlowDown", "ConditionalRequestConflict", "OperationAborted"}
_NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CODE = re.compile(r"[A-Za-z]+")


class ObjectStoreError(OSError):
    """A request failed.

    Attributes:
        code: The server's, such as ``AccessDenied``; empty if it did not answer.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(errno.EACCES if code == "AccessDenied" else errno.EIO, message)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message


class _PassingError(ObjectStoreError):
    """A request failed by what may pass."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a listing tells of an object."""

    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content: bytes
    code: str


class ObjectStore:
    """The bucket of an address. Keys are whole: they begin with the address's prefix.

    Args:
        address: Where it is.
        read_seconds: How long the server may take for an answer.
    """

    def __init__(self, address: ObjectAddress, *, read_seconds: float = READ_SECONDS) -> None:
        self._bucket = address.bucket
        self._region = (
            address.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        )
        url = urllib3.util.parse_url(f"{address.scheme}://{address.endpoint or f's3.{self._region}.amazonaws.com'}")
        self._host = url.netloc or ""
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds)
        self._connections = urllib3.connection_from_url(
            url.url,
            timeout=timeout,
            maxsize=_CONNECTIONS,
            retries=False,
            **({"ca_certs": os.environ.get("AWS_CA_BUNDLE")} if address.scheme == "https" else {}),
        )
        self._credentials = auth.AwsCredentialsProvider.new_default_chain()

    def get(self, key: str) -> bytes | None:
        """The content of an object; None if there is none."""
        answer = self._send("GET", key, accepted={http.HTTPStatus.NOT_FOUND: "NoSuchKey"})
        return answer.content if answer.status == http.HTTPStatus.OK else None

    def put(self, key: str, content: bytes) -> None:
        """Writes an object, in the place of one that is there."""
        self._send("PUT", key, content)

    def put_new(self, key: str, content: bytes) -> bool:
        """Writes an object, unless there is one. The content must be unlike any other's.

        Returns: Whether this content is the object's.
        """
        answer = self._send(
            "PUT",
            key,
            content,
            headers={"if-none-match": "*"},
            accepted={http.HTTPStatus.PRECONDITION_FAILED: "PreconditionFailed"},
        )
        if answer.status == http.HTTPStatus.OK:
            return True
        there = self.get(key)
        if there is None:
            # It went meanwhile, or the server only believes that it is there: one that was killed while it wrote an
            # object may know of it without having it, and would refuse it for ever.
            self.put(key, content)
            there = self.get(key)
        # An attempt whose answer was lost may have written it.
        return there == content

    def is_empty(self, prefix: str) -> bool:
        """Whether no key begins so."""
        return not self._page(prefix, None, 1)[0]

    def pages(self, prefix: str) -> Iterator[Sequence[StoredObject]]:
        """All objects whose keys begin so, a thousand at a time; objects may be deleted between pages."""
        token: str | None = None
        while True:
            objects, token = self._page(prefix, token, _PAGE)
            if objects:
                yield objects
            if token is None:
                return

    def names(self, prefix: str) -> Iterator[str]:
        """What follows the prefix in all keys, up to the next slash; with the slash where there is one."""
        query = {"list-type": "2", "prefix": prefix, "delimiter": "/", "encoding-type": "url"}
        while True:
            page = self._xml(self._send("GET", "", query=query))
            decode = _decoder(page)
            for found in (*page.iterfind("{*}Contents/{*}Key"), *page.iterfind("{*}CommonPrefixes/{*}Prefix")):
                yield decode(found.text or "").removeprefix(prefix)
            token = page.findtext("{*}NextContinuationToken")
            if token is None:
                return
            query["continuation-token"] = token

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes up to a thousand objects; that one is gone already is no error.

        Raises: ObjectStoreError for the first that could not be deleted, after trying all the others.
        """
        failures: list[ObjectStoreError] = []
        together = [key for key in keys if not _NOT_IN_XML.search(key)]
        if together:
            failures += self._delete_together(together)
        for key in keys:
            if _NOT_IN_XML.search(key):
                try:
                    self._send("DELETE", key, accepted={http.HTTPStatus.NOT_FOUND: "NoSuchKey"})
                except ObjectStoreError as error:
                    failures.append(error)
        if failures:
            raise failures[0]

    def copy(self, source: str, target: str) -> None:
        """Copies an object inside of the bucket. Raises: FileNotFoundError if it is gone."""
        answer = self._send(
            "PUT",
            target,
            headers={"x-amz-copy-source": _quoted(f"/{self._bucket}/{source}")},
            accepted={http.HTTPStatus.NOT_FOUND: "NoSuchKey"},
        )
        if answer.status == http.HTTPStatus.NOT_FOUND:
            raise FileNotFoundError(errno.ENOENT, "An object went while it was copied", source)

    def abort_uploads(self, prefix: str) -> None:
        """Gives up what is being uploaded in parts below a prefix; a server that has no such thing has nothing."""
        not_there = {http.HTTPStatus.NOT_IMPLEMENTED: "NotImplemented", http.HTTPStatus.NOT_FOUND: "NoSuchUpload"}
        query = {"uploads": "", "prefix": prefix, "encoding-type": "url"}
        given_up: set[tuple[str, str]] = set()
        while True:
            answer = self._send("GET", "", query=query, accepted=not_there)
            page = self._xml(answer) if answer.status == http.HTTPStatus.OK else ET.Element("none")
            decode = _decoder(page)
            found = page.iterfind("{*}Upload")
            uploads = {(decode(each.findtext("{*}Key") or ""), each.findtext("{*}UploadId") or "") for each in found}
            left = {(key, number) for key, number in uploads - given_up if key.startswith(prefix)}
            if not left:
                return
            for key, number in left:
                self._send(
                    "DELETE", key, query={"uploadId": number}, accepted={http.HTTPStatus.NOT_FOUND: "NoSuchUpload"}
                )
            given_up |= left

    def _page(self, prefix: str, token: str | None, most: int) -> tuple[Sequence[StoredObject], str | None]:
        query = {"list-type": "2", "prefix": prefix, "max-keys": str(most), "encoding-type": "url"}
        if token is not None:
            query["continuation-token"] = token
        page = self._xml(self._send("GET", "", query=query))
        decode = _decoder(page)
        objects = [
            StoredObject(decode(found.findtext("{*}Key") or ""), int(found.findtext("{*}Size") or 0))
            for found in page.iterfind("{*}Contents")
        ]
        if any(not each.key.startswith(prefix) for each in objects):
            raise ObjectStoreError(f"[{self._host}] listed keys that were not asked for; it is no S3 server.")
        return objects, page.findtext("{*}NextContinuationToken")

    def _delete_together(self, keys: Sequence[str]) -> Sequence[ObjectStoreError]:
        objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
        content = f'<Delete xmlns="{_NAMESPACE}"><Quiet>true</Quiet>{objects}</Delete>'.encode()
        checksum = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
        answer = self._send("POST", "", content, query={"delete": ""}, headers={"content-md5": checksum})
        return [
            self._error("deleting", _code(failed.findtext("{*}Code")))
            for failed in self._xml(answer).iterfind("{*}Error")
            if failed.findtext("{*}Code") != "NoSuchKey"
        ]

    def _xml(self, answer: _Answer) -> ET.Element:
        try:
            return ET.fromstring(answer.content)  # noqa: S314 - from the server that is trusted with all the data
        except ET.ParseError as error:
            raise ObjectStoreError(f"[{self._host}] answered what is no XML; it is no S3 server.") from error

    def _send(
        self,
        method: str,
        key: str,
        content: bytes = b"",
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        accepted: Mapping[http.HTTPStatus, str] | None = None,
    ) -> _Answer:
        """Sends a request, anew for as long as what is wrong may pass.

        Args:
            accepted: Which other statuses are answers too, with the code that they must have, if any.

        Raises: ObjectStoreError
        """
        target = f"/{self._bucket}/{_quoted(key)}" if key else f"/{self._bucket}"
        if query:
            parts = (f"{_quoted(name, '')}={_quoted(value, '')}" for name, value in sorted(query.items()))
            target = f"{target}?{'&'.join(parts)}"

        def attempt() -> _Answer:
            try:
                answer = self._sent(method, target, content, headers or {})
            except urllib3.exceptions.HTTPError as error:
                raise _PassingError(
                    f"The object store at [{self._host}] cannot be reached: {type(error).__name__}. "
                    "Look at its server, and at the network."
                ) from error
            if answer.status < http.HTTPStatus.MULTIPLE_CHOICES and answer.code in {"", "NoSuchKey"}:
                return answer
            if any(answer.status == status and answer.code in {code, ""} for status, code in (accepted or {}).items()):
                return answer
            is_passing = answer.status in _PASSING or answer.code in _PASSING_CODES
            action, code = f"{method} of", answer.code or str(answer.status)
            raise self._error(action, code, _PassingError if is_passing else ObjectStoreError)

        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_PassingError),
            wait=tenacity.wait_random_exponential(multiplier=0.4, exp_base=4, max=_LONGEST_PAUSE_SECONDS),
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            reraise=True,
        )
        return attempts(attempt)

    def _sent(self, method: str, target: str, content: bytes, headers: Mapping[str, str]) -> _Answer:
        response = self._connections.urlopen(
            method, target, body=content, headers=self._signed(method, target, content, headers), redirect=False
        )
        data = response.data
        is_error = response.status >= http.HTTPStatus.MULTIPLE_CHOICES or b"<Error>" in data[:400]
        code = re.search(rb"<Code>([A-Za-z]+)</Code>", data) if is_error and b"<Error>" in data else None
        return _Answer(response.status, data, code[1].decode() if code else "")

    def _signed(self, method: str, target: str, content: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        request = HttpRequest(method, target, HttpHeaders([("host", self._host), *headers.items()]))
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
        except Exception as error:  # awscrt's own, whose base is Exception
            raise ObjectStoreError(
                "There are no credentials for the object store: give them by the AWS environment variables "
                f"(AWS_ACCESS_KEY_ID, ...), a profile, or a role: {type(error).__name__}."
            ) from error

    def _error(self, action: str, code: str, kind: type[ObjectStoreError] = ObjectStoreError) -> ObjectStoreError:
        way_out = _WAYS_OUT.get(code, "Look at its server's log.")
        return kind(
            f"The object store at [{self._host}] refused {action} objects in bucket [{self._bucket}]: {code}. "
            f"{way_out}",
            code,
        )


_WAYS_OUT = {
    "AccessDenied": "Give Lodge's credentials the rights that docs/how-to/object-storage.md lists.",
    "InvalidAccessKeyId": "Correct the credentials.",
    "SignatureDoesNotMatch": "Correct the credentials, or the region.",
    "NoSuchBucket": "Create the bucket, or correct the workspace's URI.",
    "PermanentRedirect": "Correct the region in the workspace's URI.",
    "AuthorizationHeaderMalformed": "Correct the region in the workspace's URI.",
}


def _quoted(text: str, safe: str = "/") -> str:
    return quote(text, safe=f"{safe}-_.~", errors="surrogatepass")


def _code(text: str | None) -> str:
    return text if text and _CODE.fullmatch(text) else "an unknown reason"


def _decoder(page: ET.Element) -> Callable[[str], str]:
    return unquote_plus if page.findtext("{*}EncodingType") == "url" else str
