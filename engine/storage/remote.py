"""Listing and opening of files in object stores and HDFS, inside one workspace.

Guarantees:

1. A scan lists and reads only files below the prefix of the workspace. A path in a statement names a file by its exact
   name: ``..``, empty names and NUL are refused, and nothing is decoded.
2. A directory always results in the same files in the same order. Hidden names are ignored, as in Spark
   (:mod:`engine.storage.file_names`).
3. :func:`open_file` returns the contents of the file that was listed. The size and the time of the last modification
   are checked after the last read, and for large files also before the first one. Storages report this time in
   seconds. Therefore a file is settled only if it was modified more than ``_SETTLED_SECONDS`` before it was listed.
4. An error names the workspace and the file. It contains no address, and no text of the server.

Not guaranteed: if a file is replaced twice within a second, and its size stays the same, the change is not noticed.

Requests to S3: a listing needs one for 1,000 files, a few for the directories (:mod:`engine.storage.remote_walk`), and
three at the same time for each directory above, which find out whether it is that of a table.
A file of up to ``SMALL_BYTES`` needs three: two to look at it (``HeadObject``), and one to read it. A larger file needs
three to look at it, and one for each range.

The client of HDFS is a Java virtual machine inside this process. It logs to the standard output and error of the
process, with addresses.

Sources: [pyarrow-fs], [s3-api].
"""

import errno
import io
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from engine.context import ErrorContext
from engine.errors import (
    FileChangedError,
    FileError,
    PathNotFoundError,
    PathRefusedError,
    ScanOptionError,
    UnreadableFileError,
)
from engine.path_patterns import fixed_directory, is_pattern
from engine.scan_source import ScanSource
from engine.storage.file_names import ICEBERG_METADATA, MARKING_DIRECTORIES, FoundTables
from engine.storage.listed_file import (
    MAX_FILES,
    ListedFile,
    OnProgress,
    ignore_progress,
    require_few_files,
    select_files,
)
from engine.storage.open_ahead import SMALL_BYTES
from engine.storage.remote_walk import RemoteWalk

_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 10.0
_ATTEMPTS = 4
_TOO_LONG = "Failed to flush response stream"
_PAUSES_SECONDS = (0.1, 0.4, 1.6, 0.0)
_RETRY_TIME = timedelta(seconds=15)
_SETTLED_SECONDS = 2.0
_BUFFER_BYTES = 1024 * 1024

_JAVA_OPTIONS = ("-Xrs", "-Xms8m")
_HDFS_REQUEST_SECONDS = 8.0
"""A path that does not answer needs three requests, and planning waits 30 seconds for a listing."""

_BROKEN = "the storage does not answer, or the connection broke; run the statement again"
_NO_BUCKET = "the bucket of the workspace does not exist; correct the URI of the workspace"
_STATUS = r"""(?:HTTP status (?:code: )?|http_status_code=|"code":\s*|<title>Error |Azure Error: \[\w*\] )"""
"""The text before the status of a response in the messages of S3, Google Cloud Storage and Azure."""
_REASONS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        ("EXPIRED|ExpiredToken", "the credentials have expired; renew them"),
        (
            "DENIED|UNAUTHENTICATED|AccessDenied|SIGNATURE|INVALID_ACCESS|INVALID_CLIENT|UNRECOGNIZED_CLIENT|Forbidden|Unauthorized|Authentication|Credential"
            rf"|{_STATUS}40[13]\b",
            "the credentials of the process do not allow it; check its role, its profile or its environment variables",
        ),
        ("NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound", _NO_BUCKET),
        (
            rf"SLOW_DOWN|SlowDown|THROTTLING|TooManyRequests|{_STATUS}(?:503|429)\b",
            "the storage refuses requests, because there are too many",
        ),
        ("libhdfs|libjvm|JNI|HADOOP", "the process has no HDFS client; install Hadoop with libhdfs"),
        ("Permission denied", "the user of the process may not read it; change its permissions or the user"),
        ("HDFS", "HDFS does not answer, or refuses the process; the log of the process contains the cause"),
        (
            rf"NETWORK|curlCode|CURL|TIMEOUT|[Tt]ime(?:d )?out|[Cc]onnect|INTERNAL|UNAVAILABLE|{_STATUS}50[024]\b",
            _BROKEN,
        ),
    )
)
_NAMES = re.compile(r"'.*?'(?=[ :.,]|$)|https?://\S+")
"""The names of files and buckets and the addresses in a message, which must not decide what its cause is."""


def list_files(
    source: ScanSource, on_progress: OnProgress = ignore_progress, *, is_raw: bool = False
) -> Sequence[ListedFile]:
    """Return the files of a scan, sorted by path.

    Args:
        source: The scan.
        on_progress: Called while directories are listed.
        is_raw: Whether the files may be in the directory of a table.

    Raises:
        PathNotFoundError: If the path does not exist and, interpreted as a pattern, does not match any file.
        PathRefusedError: If the scan may not read the path.
        TableDirectoryError: If a file is in the directory of a Delta, Iceberg or Hudi table, unless ``is_raw``.
        UnreadableFileError: If the storage cannot be listed, or there are too many files.
    """
    store = _Store(source)
    path = PurePosixPath(source.path)
    info = store.info(source.path)
    if info.type == fs.FileType.File:
        return [_listed(str(path), info)]
    tables = FoundTables(source)
    found: Sequence[ListedFile] = ()
    if info.type == fs.FileType.Directory:
        found = store.files_below(path, on_progress, tables)
    elif is_pattern(source.path):
        with suppress(PathNotFoundError):
            below = store.files_below(fixed_directory(source.path), on_progress, tables)
            found = select_files(source, below, on_progress)
    if not found and info.type != fs.FileType.Directory:
        store.require_bucket(str(path))
        raise PathNotFoundError(source.workspace, str(path))
    if not is_raw:
        tables.refuse(found)
    return found


def open_file(source: ScanSource, file: ListedFile) -> BinaryIO:
    """Open a file of the scan for reading. The caller must close the file, which checks it again.

    Raises:
        FileChangedError: If the file has changed since it was listed.
        PathNotFoundError: If the file does not exist.
        PathRefusedError: If the scan may not read the path.
        UnreadableFileError: If the file cannot be read.
    """
    store = _Store(source)
    is_small = file.size_bytes <= SMALL_BYTES
    if not is_small:
        store.check(file)
    raw = _RemoteFile(store, file)
    if not is_small:
        return cast("BinaryIO", io.BufferedReader(raw, _BUFFER_BYTES))
    with raw:
        return io.BytesIO(raw.readall())


class _Store:
    """The storage of a scan."""

    def __init__(self, source: ScanSource) -> None:
        self._source = source
        self.workspace = source.workspace
        root = urlsplit(source.root)
        self.is_hdfs = root.scheme == "hdfs"
        place = "" if self.is_hdfs else root.netloc.partition("@")[0]
        self._base = [place, *filter(None, unquote(root.path).split("/"))]
        with self.errors(source.path):
            self.file_system = _connect(source.root)

    def key(self, path: str) -> str:
        """Return the name of a file in the storage.

        Raises:
            PathRefusedError: If the path may lead out of the workspace.
        """
        names = [] if path == "." else path.split("/")
        if "\0" in path or any(name in {"", ".", ".."} for name in names):
            raise PathRefusedError(
                self.workspace, path, "the path must be relative to the workspace, without '..', '//' or NUL"
            )
        return "/".join((*self._base, *names)) or "/"

    def info(self, path: str) -> fs.FileInfo:
        """Return what the storage knows about a file or directory."""
        key = self.key(path)
        with self.errors(path):
            info = self.file_system.get_file_info(key)
            if self.is_hdfs and info.type == fs.FileType.NotFound:
                # Arrow reports every failure of this request as a missing file. A listing reports the cause.
                with suppress(FileNotFoundError):
                    self.file_system.get_file_info(fs.FileSelector(key))
                    return self.file_system.get_file_info(key)
            return info

    def require_bucket(self, path: str) -> None:
        """Check that the bucket of the workspace exists.

        Raises:
            UnreadableFileError: If it does not exist.
        """
        bucket = self._base[0]
        with self.errors(path):
            is_missing = bucket and self.file_system.get_file_info(bucket).type == fs.FileType.NotFound
        if is_missing:
            raise UnreadableFileError(self.workspace, path, _NO_BUCKET)

    def check(self, file: ListedFile) -> None:
        """Check that a file is as it was listed.

        Raises:
            FileChangedError: If it has changed.
            PathNotFoundError: If it does not exist.
        """
        info = self.info(file.path)
        if info.type == fs.FileType.NotFound:
            raise PathNotFoundError(self.workspace, file.path)
        if info.type != fs.FileType.File or (info.size, _version(info)) != (file.size_bytes, file.version):
            raise self.changed(file)

    def changed(self, file: ListedFile) -> FileChangedError:
        """Return the error for a file that has changed."""
        return FileChangedError(ErrorContext(self.workspace, file.path), "it was replaced")

    def files_below(
        self, directory: PurePosixPath, on_progress: OnProgress, tables: FoundTables
    ) -> Sequence[ListedFile]:
        """Return the files below a directory, sorted by path. Note the tables of other formats there and above."""
        for parent in directory.parents:
            self._note_marks(parent, tables)
        key = self.key(str(directory))
        prefix = f"{key.rstrip('/')}/"

        def list_directory(place: str, is_recursive: bool) -> Sequence[fs.FileInfo]:
            on_progress()
            # With allow_not_found, Arrow skips directories that HDFS fails to list.
            selector = fs.FileSelector(place, allow_not_found=not self.is_hdfs, recursive=is_recursive)
            with self.errors(str(directory)):
                found: Sequence[fs.FileInfo] = self.file_system.get_file_info(selector)
            return found

        def split_name(info: fs.FileInfo) -> Sequence[str]:
            """Return the names of a path. S3 lists the directory itself if it contains an object with an empty name."""
            if info.path == key and not self._source.root.startswith("s3:"):
                return []
            names: Sequence[str] = info.path.removeprefix(prefix).split("/")
            if not info.path.startswith(prefix) or not {"", ".", ".."}.isdisjoint(names):
                path = "/".join((*directory.parts, *names))
                raise UnreadableFileError(self.workspace, path, "its name is not that of a file; rename the object")
            return names

        walk = RemoteWalk(
            list_directory,
            split_name,
            partial(require_few_files, self._source),
            MAX_FILES,
            lambda names: tables.note([*directory.parts, *names]),
        )
        if self._source.root.startswith("gs:"):  # pyarrow finds directories only if they have objects of their own
            walk.list(key, is_recursive=True)
        else:
            walk.run(key)
        files = (("/".join((*directory.parts, *names)), info) for names, info in walk.files)
        return sorted((_listed(path, info) for path, info in files), key=attrgetter("path"))

    def _note_marks(self, directory: PurePosixPath, tables: FoundTables) -> None:
        """Note whether a directory above the selected one is that of a table."""
        marks = {mark: self.key(str(directory / mark)) for mark in (*MARKING_DIRECTORIES, ICEBERG_METADATA)}
        with self.errors(str(directory)):
            found = self.file_system.get_file_info(list(marks.values()))
            for mark, info in zip(marks, found, strict=True):
                if info.type == fs.FileType.Directory:
                    tables.note([*directory.parts, mark])
            if found[-1].type == fs.FileType.Directory:
                selector = fs.FileSelector(marks[ICEBERG_METADATA], allow_not_found=True)
                for one in self.file_system.get_file_info(selector):
                    tables.note([*directory.parts, ICEBERG_METADATA, one.path.rpartition("/")[2]])

    @contextmanager
    def errors(self, path: str) -> Iterator[None]:
        """Convert errors of the storage."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise self.error(path, error) from None

    def error(self, path: str, error: Exception) -> FileError:
        """Return the error of the engine for an error of Arrow."""
        # HDFS refuses names with a colon.
        is_no_name = self.is_hdfs and isinstance(error, OSError) and error.errno == errno.EINVAL
        if is_no_name or isinstance(error, FileNotFoundError):
            return PathNotFoundError(self.workspace, path)
        text = _NAMES.sub("", str(error))
        reasons = (reason for pattern, reason in _REASONS if pattern.search(text))
        return UnreadableFileError(self.workspace, path, next(reasons, type(error).__name__))


class _RemoteFile(io.RawIOBase):
    """An open file. Closing it checks that the file has not changed since it was listed.

    The position is kept here, because Arrow's file of Google Cloud Storage requests the content at each new position,
    and fails at the end of the file.

    Args:
        store: The storage.
        file: The file, as it was listed.

    Raises:
        FileChangedError: If the file has another size than it had.
    """

    def __init__(self, store: _Store, file: ListedFile) -> None:
        super().__init__()
        self._store = store
        self._file = file
        self._position = 0
        with store.errors(file.path):
            self._opened = store.file_system.open_input_file(store.key(file.path))
        if self._opened.size() != file.size_bytes:
            raise store.changed(file)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._read(self._file.size_bytes)

    def _read(self, count: int) -> bytes:
        """Read up to this number of bytes at the current position.

        Arrow repeats a request that the storage refuses. It cannot do so if the answer is longer than the bytes that it
        expects, as for a small file. Therefore such a request is repeated here. The engine has no library for this,
        because executors need only pyarrow.
        """
        count = min(count, self._file.size_bytes - self._position)
        if count <= 0:
            return b""
        for pause_seconds in _PAUSES_SECONDS:
            try:
                data = self._opened.read_at(count, self._position)
                break
            except OSError as error:
                if self._store.is_hdfs:  # which removes the blocks of a replaced file
                    self._store.check(self._file)
                if _TOO_LONG not in str(error):
                    raise self._store.error(self._file.path, error) from None
                time.sleep(pause_seconds)
        else:
            raise UnreadableFileError(self._store.workspace, self._file.path, _BROKEN)
        self._position += len(data)
        return bytes(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}[whence]
        if start + offset < 0:
            raise ValueError(f"negative seek position {start + offset}")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._opened.close()
        self._store.check(self._file)


@cache
def _connect(root: str) -> fs.FileSystem:
    """Return the file system of a root, with the identity of this process."""
    address = urlsplit(root)
    options: dict[str, Any] = dict(parse_qsl(address.query))
    if "anonymous" in options:
        options["anonymous"] = options["anonymous"] == "true"
    match address.scheme:
        case "s3":
            return fs.S3FileSystem(
                **options,
                connect_timeout=_CONNECT_SECONDS,
                request_timeout=_REQUEST_SECONDS,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
            )
        case "gs":
            return fs.GcsFileSystem(**options, retry_time_limit=_RETRY_TIME)
        case "abfss":
            return _connect_to_azure(str(address.hostname), options)
        case "hdfs":
            return _connect_to_hdfs(str(address.hostname), address.port or 0)
    raise ScanOptionError("root", f"has the unknown scheme {address.scheme!r}")


def _connect_to_hdfs(host: str, port: int) -> fs.FileSystem:
    """Return the file system of a NameNode, or of a name service in the settings of Hadoop.

    With its own limits, Hadoop waits minutes for a server that does not answer. Without ``-Xrs``, its Java virtual
    machine replaces the handlers of this process for SIGTERM and SIGHUP, and ends the process. Without ``-Xms``, it
    begins with a 64th of the machine's memory, which can be more than the memory limit of a task.
    """
    options = os.environ.get("LIBHDFS_OPTS", "").split()
    missing = [each for each in _JAVA_OPTIONS if not any(option.startswith(each[:4]) for option in options)]
    os.environ["LIBHDFS_OPTS"] = " ".join([*missing, *options])
    connect, request = str(int(_CONNECT_SECONDS * 1000)), str(int(_HDFS_REQUEST_SECONDS * 1000))
    limits = {
        "ipc.client.connect.timeout": connect,
        "ipc.client.connect.max.retries.on.timeouts": "0",
        "ipc.client.rpc-timeout.ms": request,
        "dfs.client.socket-timeout": request,
    }
    return fs.HadoopFileSystem(host, port, extra_conf=limits)


def _connect_to_azure(host: str, options: dict[str, Any]) -> fs.FileSystem:
    """Return the file system of an account.

    Without a key or a signature in the environment, the identity of the process is used.
    """
    account, _, cloud = host.partition(".dfs.")
    places = {"blob_storage_authority": f".blob.{cloud}", "dfs_storage_authority": f".dfs.{cloud}"}
    if endpoint := options.get("endpoint_override"):
        places = dict.fromkeys(places, endpoint)
    key = os.environ.get("AZURE_STORAGE_KEY")
    return fs.AzureFileSystem(
        account,
        account_key=key,
        sas_token=None if key else os.environ.get("AZURE_STORAGE_SAS_TOKEN"),
        blob_storage_scheme=options.get("scheme"),
        dfs_storage_scheme=options.get("scheme"),
        **places,
    )


def _listed(path: str, info: fs.FileInfo) -> ListedFile:
    is_settled = time.time() - (info.mtime_ns or 0) / 1e9 > _SETTLED_SECONDS
    return ListedFile(path, int(info.size), _version(info), is_settled)


def _version(info: fs.FileInfo) -> str:
    return str(info.mtime_ns)
