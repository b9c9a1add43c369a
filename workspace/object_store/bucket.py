"""A bucket, with the few operations that session locations need.

Session locations contain any keys that their owners wrote, and must be removed with nothing else. File-like layers over
S3 cannot promise that: they read ``..`` and empty names as parts of a path, and create keys of their own to look like
directories. Here a key is a text and nothing more.

Guarantees:

1. A key goes to the server exactly as it came from there. Only keys that were listed below a prefix are deleted.
2. A request ends within ``ATTEMPTS`` times its timeouts; see :mod:`workspace.object_store.s3_client`.

Not guaranteed: keys that are not UTF-8; S3 has none.

All methods block, and raise ObjectStoreError, which is an OSError. S3 is consistent: the next request sees what was
written or deleted before.

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
    """An object as a listing shows it."""

    key: str
    size_bytes: int


class Bucket(S3Client):
    """A bucket. Keys are complete: they begin with the prefix of the address."""

    def get(self, key: str) -> bytes | None:
        """Return the content of an object; None if there is none."""
        answer = self.send("GET", key, accepted=_NO_SUCH_KEY)
        return answer.content if answer.status == HTTPStatus.OK else None

    def put(self, key: str, content: bytes) -> None:
        """Write an object, and replace an existing one."""
        self.send("PUT", key, content)

    def put_new(self, key: str, content: bytes) -> bool:
        """Write an object unless it exists. The content must be unique.

        Returns:
            Whether the object has this content.
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
            # Either it was deleted just now, or the server only believes that it exists: a server that was killed while
            # it wrote an object may know the object without having it, and would refuse it for ever.
            self.put(key, content)
            existing = self.get(key)
        # An earlier attempt whose answer was lost may have written it.
        return existing == content

    def is_empty(self, prefix: str) -> bool:
        """Return whether no key begins with a prefix."""
        return not self._page(prefix, None, 1)[0]

    def pages(self, prefix: str) -> Iterator[Sequence[StoredObject]]:
        """Yield all objects below a prefix, a thousand at a time.

        Objects may be deleted between pages.
        """
        token: str | None = None
        while True:
            objects, token = self._page(prefix, token, _PAGE_OBJECTS)
            if objects:
                yield objects
            if token is None:
                return

    def names(self, prefix: str) -> Iterator[str]:
        """Yield what follows a prefix in all keys, up to and including the next slash."""
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
        """Delete up to a thousand objects. A missing object is no error.

        Raises:
            ObjectStoreError: If an object could not be deleted. The first such error, raised after trying all the rest.
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
            FileNotFoundError: If the source is gone.
        """
        headers = {"x-amz-copy-source": quote_text(f"/{self.bucket}/{source}")}
        answer = self.send("PUT", target, headers=headers, accepted=_NO_SUCH_KEY)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise FileNotFoundError(errno.ENOENT, "An object was deleted while it was copied", source)

    def abort_uploads(self, prefix: str) -> None:
        """Abort the multi-part uploads below a prefix.

        A server without such uploads has nothing to abort.
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
