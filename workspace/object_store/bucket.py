"""A bucket, with the few operations that session locations need.

Session locations can contain any keys that their owners wrote. A removal must delete all of these keys and no others.
Libraries that make S3 look like a file system cannot guarantee this. They interpret ``..`` and empty names as parts of
a path, and create additional keys to represent directories. In this module, a key is only a string.

Guarantees:

1. Keys are sent to the server exactly as they were received from it. Only keys that were listed below a prefix are
   deleted.
2. A request ends within ``ATTEMPTS`` times its timeouts; see :mod:`workspace.object_store.s3_client`.

Not guaranteed: Keys that are not valid UTF-8 are not supported. S3 does not have such keys.

All methods block, and raise ObjectStoreError, which is a subclass of OSError. S3 is strongly consistent: each request
sees all earlier writes and deletions.

Source: [s3-api].
"""

import base64
import errno
import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import unquote_plus
from xml.sax.saxutils import escape

from workspace.object_store.s3_client import ObjectStoreError, S3Client, quote_text

_PAGE_OBJECTS = 1000
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_SUCH_KEY = {HTTPStatus.NOT_FOUND: "NoSuchKey"}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing of the bucket."""

    key: str
    size_bytes: int


class Bucket(S3Client):
    """A bucket. All keys are complete and begin with the prefix of the address."""

    def get(self, key: str) -> bytes | None:
        """Return the content of an object, or None if it does not exist."""
        answer = self.send("GET", key, accepted=_NO_SUCH_KEY)
        return answer.content if answer.status == HTTPStatus.OK else None

    def put(self, key: str, content: bytes) -> None:
        """Write an object. An existing object is replaced."""
        self.send("PUT", key, content)

    def put_new(self, key: str, content: bytes) -> bool:
        """Write an object if it does not exist. The content must be unique.

        Returns:
            Whether the object has the given content.
        """
        answer = self.send(
            "PUT",
            key,
            content,
            headers={"if-none-match": "*"},
            accepted={HTTPStatus.PRECONDITION_FAILED: "PreconditionFailed"},
        )
        if answer.status == HTTPStatus.OK:
            return True
        existing = self.get(key)
        if existing is None:
            # Either the object was deleted a moment ago, or the server wrongly considers it existing. A server that
            # was killed while it was writing an object may have an entry for the object without its content, and would
            # refuse the request for ever.
            self.put(key, content)
            existing = self.get(key)
        # An earlier attempt whose response was lost may have written the object.
        return existing == content

    def is_empty(self, prefix: str) -> bool:
        """Return whether there are no keys with the given prefix."""
        return not self._page(prefix, None, 1)[0]

    def pages(self, prefix: str) -> Iterator[Sequence[StoredObject]]:
        """Yield all objects whose keys have the given prefix, a thousand at a time.

        Objects may be deleted between two pages.
        """
        token: str | None = None
        while True:
            objects, token = self._page(prefix, token, _PAGE_OBJECTS)
            if objects:
                yield objects
            if token is None:
                return

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the next part of all keys after a prefix.

        The next part ends with the next slash, which is included, or with the end of the key.
        """
        query = {"list-type": "2", "prefix": prefix, "delimiter": "/", "encoding-type": "url"}
        while True:
            page = self.parse_xml(self.send("GET", "", query=query))
            decode = _decoder(page)
            for found in (*page.iterfind("{*}Contents/{*}Key"), *page.iterfind("{*}CommonPrefixes/{*}Prefix")):
                yield decode(found.text or "").removeprefix(prefix)
            token = page.findtext("{*}NextContinuationToken")
            if token is None:
                return
            query["continuation-token"] = token

    def delete(self, keys: Sequence[str]) -> None:
        """Delete up to a thousand objects. Objects that do not exist are ignored.

        Raises:
            ObjectStoreError: If an object could not be deleted. All other objects are deleted first, and the first
                error is raised.
        """
        failures: list[ObjectStoreError] = []
        together = [key for key in keys if not _NOT_IN_XML.search(key)]
        if together:
            failures += self._delete_together(together)
        for key in keys:
            if _NOT_IN_XML.search(key):
                try:
                    self.send("DELETE", key, accepted=_NO_SUCH_KEY)
                except ObjectStoreError as error:
                    failures.append(error)
        if failures:
            raise failures[0]

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the bucket.

        Raises:
            FileNotFoundError: If the source does not exist.
        """
        headers = {"x-amz-copy-source": quote_text(f"/{self.bucket}/{source}")}
        answer = self.send("PUT", target, headers=headers, accepted=_NO_SUCH_KEY)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise FileNotFoundError(errno.ENOENT, "The object was deleted while it was being copied", source)

    def abort_uploads(self, prefix: str) -> None:
        """Abort the multipart uploads of keys with the given prefix.

        If the server does not support multipart uploads, nothing is done.
        """
        no_uploads = {HTTPStatus.NOT_IMPLEMENTED: "NotImplemented", HTTPStatus.NOT_FOUND: "NoSuchUpload"}
        query = {"uploads": "", "prefix": prefix, "encoding-type": "url"}
        aborted: set[tuple[str, str]] = set()
        while True:
            answer = self.send("GET", "", query=query, accepted=no_uploads)
            page = self.parse_xml(answer) if answer.status == HTTPStatus.OK else ET.Element("none")
            decode = _decoder(page)
            found = page.iterfind("{*}Upload")
            uploads = {(decode(each.findtext("{*}Key") or ""), each.findtext("{*}UploadId") or "") for each in found}
            remaining = {(key, number) for key, number in uploads - aborted if key.startswith(prefix)}
            if not remaining:
                return
            for key, number in remaining:
                self.send("DELETE", key, query={"uploadId": number}, accepted={HTTPStatus.NOT_FOUND: "NoSuchUpload"})
            aborted |= remaining

    def _page(self, prefix: str, token: str | None, limit: int) -> tuple[Sequence[StoredObject], str | None]:
        query = {"list-type": "2", "prefix": prefix, "max-keys": str(limit), "encoding-type": "url"}
        if token is not None:
            query["continuation-token"] = token
        page = self.parse_xml(self.send("GET", "", query=query))
        decode = _decoder(page)
        objects = [
            StoredObject(decode(found.findtext("{*}Key") or ""), int(found.findtext("{*}Size") or 0))
            for found in page.iterfind("{*}Contents")
        ]
        if any(not each.key.startswith(prefix) for each in objects):
            raise ObjectStoreError(
                f"The server at [{self.host}] listed keys outside the requested prefix, so it is not an S3 server. "
                "Correct the workspace's URI."
            )
        return objects, page.findtext("{*}NextContinuationToken")

    def _delete_together(self, keys: Sequence[str]) -> Sequence[ObjectStoreError]:
        objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
        content = f'<Delete xmlns="{_NAMESPACE}"><Quiet>true</Quiet>{objects}</Delete>'.encode()
        checksum = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
        answer = self.send("POST", "", content, query={"delete": ""}, headers={"content-md5": checksum})
        return [
            self.refusal("deleting", failed.findtext("{*}Code"))
            for failed in self.parse_xml(answer).iterfind("{*}Error")
            if failed.findtext("{*}Code") != "NoSuchKey"
        ]


def _decoder(page: ET.Element) -> Callable[[str], str]:
    return unquote_plus if page.findtext("{*}EncodingType") == "url" else str
