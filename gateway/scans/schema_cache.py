"""The schemas of files that were examined before.

Examining a file takes much longer than listing it. Therefore a gateway remembers the schema of each file that a scan
has examined. The next scan examines only files that are new or have changed.

Guarantees:

1. A schema is found only for the same path, size, version and options. A file that changes is a different entry.
2. One principal never gets a schema that a scan of another principal has found. Otherwise a client that replaces the
   data source in its session could change the results of others.
3. The cache occupies at most ``max_bytes``. The entries that were not used for the longest time are removed first.
4. A schema larger than ``MAX_SCHEMA_BYTES`` is not stored. Therefore one schema never replaces all others.

An instance may be used by several threads.
"""

import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.storage.listed_file import ListedFile
from workspace.identifiers import Principal

MAX_BYTES = 64 * 1024 * 1024
"""The default limit of the cache, for the schemas of about 300,000 files."""

MAX_SCHEMA_BYTES = 1024 * 1024
"""The size of the largest schema that is remembered."""

_ENTRY_BYTES = 224
DIGEST_BYTES = 16
"""The length of the key of a file."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What the schema of a file depends on beside the file.

    Attributes:
        principal: The client on whose behalf files are examined.
        root: The root of the workspace.
        options: The options that affect the schema.
    """

    principal: Principal
    root: str
    options: Mapping[str, str]

    def encode(self) -> bytes:
        """Return a text that differs from that of all other examinations."""
        return json.dumps([self.principal, self.root, sorted(self.options.items())]).encode()

    def digests(self, files: Sequence[ListedFile]) -> Sequence[bytes]:
        """Return the key of each file."""
        base = hashlib.blake2b(self.encode(), digest_size=DIGEST_BYTES)
        found = []
        for file in files:
            one = base.copy()
            one.update(f"\0{file.size_bytes}\0{file.version}\0{file.path}".encode(errors="surrogateescape"))
            found.append(one.digest())
        return found


class SchemaCache:
    """Encoded schemas by file.

    Args:
        max_bytes: The limit of the memory that the cache occupies.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._schemas: OrderedDict[bytes, bytes] = OrderedDict()
        self._uses: Counter[bytes] = Counter()
        self._same: dict[bytes, bytes] = {}
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """About how much memory the cache occupies."""
        return self._size_bytes

    def find(self, examination: Examination, files: Sequence[ListedFile]) -> list[bytes | None]:
        """Return the schema of each file, or None for files that are not in the cache."""
        digests = examination.digests(files)
        with self._lock:
            found = [self._schemas.get(digest) for digest in digests]
            for digest, schema in zip(digests, found, strict=True):
                if schema is not None:
                    self._schemas.move_to_end(digest)
        return found

    def store(self, examination: Examination, files: Sequence[ListedFile], schema: bytes) -> None:
        """Remember the schema of files, except files that may change without a new version."""
        digests = examination.digests(files)
        settled = {digest: schema for file, digest in zip(files, digests, strict=True) if file.is_settled}
        self._replace(digests, settled)

    def add(self, schemas: Mapping[bytes, bytes]) -> None:
        """Remember schemas by the keys of their files."""
        self._replace(schemas, schemas)

    def _replace(self, digests: Iterable[bytes], schemas: Mapping[bytes, bytes]) -> None:
        with self._lock:
            for digest in digests:
                if digest in self._schemas:
                    self._remove(digest)
            for digest, schema in schemas.items():
                if len(schema) <= min(MAX_SCHEMA_BYTES, self._max_bytes):
                    self._add(digest, schema)
            while self._size_bytes > self._max_bytes:
                self._remove(next(iter(self._schemas)))

    def _add(self, digest: bytes, schema: bytes) -> None:
        same = self._same.setdefault(schema, schema)
        self._schemas[digest] = same
        self._uses[same] += 1
        self._size_bytes += _ENTRY_BYTES
        if self._uses[same] == 1:
            self._size_bytes += len(same)

    def _remove(self, digest: bytes) -> None:
        schema = self._schemas.pop(digest)
        self._size_bytes -= _ENTRY_BYTES
        self._uses[schema] -= 1
        if not self._uses[schema]:
            del self._uses[schema], self._same[schema]
            self._size_bytes -= len(schema)
