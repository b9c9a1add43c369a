"""An S3 client that sends keys that no well-behaved client would send (AWS: Signature Version 4)."""

import datetime
import hashlib
import hmac
import http.client
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from urllib.parse import quote

_UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True, slots=True)
class RawS3:
    """A client for one account at one server.

    Attributes:
        endpoint: ``host:port``; plain HTTP.
    """

    endpoint: str
    access_key: str
    secret_key: str
    region: str = "us-east-1"

    def put(self, bucket: str, key: str, content: bytes = b"data") -> int:
        """Write an object, and return the status; servers refuse some keys."""
        status, _ = self.request("PUT", f"/{bucket}/{key}", content)
        return status

    def get(self, bucket: str, key: str) -> bytes | None:
        status, content = self.request("GET", f"/{bucket}/{key}")
        return content if status == http.HTTPStatus.OK else None

    def keys(self, bucket: str, prefix: str = "") -> Sequence[str]:
        """Return all keys exactly as the server lists them."""
        found: list[str] = []
        query = {"list-type": "2", "prefix": prefix}
        while True:
            status, content = self.request("GET", f"/{bucket}", query=query)
            if status != http.HTTPStatus.OK:
                raise AssertionError(f"listing failed: {status} {content!r}")
            text = content.decode()
            found += [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", text, re.DOTALL)]
            token = re.search(r"<NextContinuationToken>(.*?)</NextContinuationToken>", text)
            if token is None:
                return found
            query["continuation-token"] = unescape(token[1])

    def request(
        self, method: str, path: str, content: bytes = b"", *, query: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        uri = quote(path, safe="/-_.~", errors="surrogateescape")
        parameters = "&".join(
            f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in sorted((query or {}).items())
        )
        connection = http.client.HTTPConnection(self.endpoint, timeout=30)
        try:
            target = f"{uri}?{parameters}" if parameters else uri
            connection.request(method, target, content, self._headers(method, uri, parameters))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _headers(self, method: str, uri: str, parameters: str) -> Mapping[str, str]:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": self.endpoint, "x-amz-content-sha256": _UNSIGNED, "x-amz-date": now}
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"{method}\n{uri}\n{parameters}\n{lines}\n{names}\n{_UNSIGNED}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = b"AWS4" + self.secret_key.encode()
        for part in (now[:8], self.region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        authorisation = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope},SignedHeaders={names},Signature={signature}"
        )
        return headers | {"authorization": authorisation}
