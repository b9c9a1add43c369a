"""The storage of session locations from the view of backends that write and operators who look."""

import os
import shutil
from collections.abc import Mapping, Set
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from pyarrow import fs

from tests.workspace.object_store.raw_s3 import RawS3
from workspace.files.roots import home_of
from workspace.files.schema_segments import FileSchemaSegments
from workspace.files.session_locations import FileSessionLocations
from workspace.locations import SessionLocations
from workspace.object_store.addresses import ObjectAddress
from workspace.object_store.bucket import Bucket
from workspace.object_store.schema_segments import ObjectSchemaSegments
from workspace.object_store.session_locations import ObjectSessionLocations
from workspace.root_identities import RootIds
from workspace.schema_segments import SchemaSegments


class Storage(Protocol):
    """A default temporary workspace. Names are relative to it, with slashes."""

    def opened(self, root_ids: RootIds | None = None) -> SessionLocations:
        """Return the locations of a process that starts now."""
        ...

    def schema_segments(self) -> SchemaSegments:
        """Return the remembered schemas of a process that starts now. The locations must have been opened before."""
        ...

    def write(self, name: str, content: bytes = b"data") -> None:
        """Write a file as backends do, with missing directories."""
        ...

    def remove(self, place: str) -> None:
        """Remove a file of Lodge's own as operators do, by its path or URI."""
        ...

    def files(self) -> Mapping[str, bytes]:
        """Return all files and their contents, without Lodge's own."""
        ...

    def unmount(self) -> None:
        """Leave an empty directory or bucket in the place of the workspace."""
        ...

    def mount(self) -> None:
        """Bring the workspace back."""
        ...


class Files:
    """A workspace in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def opened(self, root_ids: RootIds | None = None) -> SessionLocations:
        locations = FileSessionLocations(self.root, home_of(self.root), root_ids)
        locations.initialise()
        return locations

    def schema_segments(self) -> SchemaSegments:
        return FileSchemaSegments(self.root)

    def write(self, name: str, content: bytes = b"data") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def remove(self, place: str) -> None:
        Path(place).unlink()

    def files(self) -> Mapping[str, bytes]:
        paths = (path for path in self.root.rglob("*") if path.is_file())
        found = {str(path.relative_to(self.root)): path for path in paths}
        return {name: path.read_bytes() for name, path in found.items() if not name.startswith(".lodge")}

    def unmount(self) -> None:
        self.root.rename(self.root.with_name("elsewhere"))
        self.root.mkdir()

    def mount(self) -> None:
        shutil.rmtree(self.root)
        self.root.with_name("elsewhere").rename(self.root)


class Objects:
    """A workspace in a bucket, written and read by pyarrow, which does not know Lodge."""

    def __init__(self, raw: RawS3, bucket: str, prefix: str = "lodge/tmp") -> None:
        self.raw = raw
        self.bucket = bucket
        self.prefix = prefix
        self.address = ObjectAddress(bucket, prefix, raw.endpoint, "http", raw.region)
        self._arrow = fs.S3FileSystem(
            access_key=raw.access_key,
            secret_key=raw.secret_key,
            endpoint_override=raw.endpoint,
            scheme="http",
            region=raw.region,
        )

    def opened(self, root_ids: RootIds | None = None) -> ObjectSessionLocations:
        locations = ObjectSessionLocations(
            self.address, root_ids, bucket=Bucket(self.address, read_seconds=5), relist_seconds=0
        )
        locations.initialise()
        return locations

    def schema_segments(self) -> SchemaSegments:
        return ObjectSchemaSegments(self.address)

    def write(self, name: str, content: bytes = b"data") -> None:
        with self._arrow.open_output_stream(f"{self.bucket}/{self.prefix}/{name}") as stream:
            stream.write(content)

    def remove(self, place: str) -> None:
        status, _ = self.raw.request("DELETE", f"/{place.removeprefix('s3://')}")
        assert status == HTTPStatus.NO_CONTENT

    def files(self) -> Mapping[str, bytes]:
        selected = fs.FileSelector(f"{self.bucket}/{self.prefix}", allow_not_found=True, recursive=True)
        infos = self._arrow.get_file_info(selected)
        names = (info.path.split("/", 1)[1].removeprefix(f"{self.prefix}/") for info in infos if info.is_file)
        own = (".lodge", ".location")
        return {name: self._read(name) for name in names if not name.startswith(own[0]) and not name.endswith(own[1])}

    def keys(self, below: str = "") -> Set[str]:
        """Return all keys below a prefix, relative to the workspace, including Lodge's own."""
        prefix = f"{self.prefix}/"
        return {key.removeprefix(prefix) for key in self.raw.keys(self.bucket, prefix + below)}

    def unmount(self) -> None:
        self._elsewhere = {key: self.raw.get(self.bucket, key) or b"" for key in self.raw.keys(self.bucket)}
        for key in self._elsewhere:
            self.raw.request("DELETE", f"/{self.bucket}/{key}")

    def mount(self) -> None:
        for key in self.raw.keys(self.bucket):
            self.raw.request("DELETE", f"/{self.bucket}/{key}")
        for key, content in self._elsewhere.items():
            self.raw.put(self.bucket, key, content)

    def _read(self, name: str) -> bytes:
        with self._arrow.open_input_stream(f"{self.bucket}/{self.prefix}/{name}") as stream:
            return bytes(stream.read())


def give_credentials(access_key: str, secret_key: str, environment: "os._Environ[str] | dict[str, str]") -> None:
    """Set credentials as an operator does, by the standard environment variables only."""
    for name in [name for name in environment if name.startswith("AWS_")]:
        del environment[name]
    environment.update(AWS_ACCESS_KEY_ID=access_key, AWS_SECRET_ACCESS_KEY=secret_key, AWS_EC2_METADATA_DISABLED="true")
