"""Brings the engine to backends that do not have it.

A scan runs Lodge's engine in the Python processes of the backend. Before the first scan of a session, the gateway asks
the backend for its engine. If the backend does not have an engine, the gateway sends its own as an artifact of the
session, and registers the data source there. Other sessions of the backend are not affected.

Spark does not replace a data source that is installed in its Python environment. Therefore a backend with another
version of Lodge is refused.

Guarantees:

1. The backend is asked once for each of its sessions, and gets the engine and the key at most once from each gateway. A
   new session of the backend, for example after a restart or in a clone, is asked again.
2. If two gateways bring the engine to the same session, or one gateway is interrupted, the next scan works.
3. A scan never runs with another version of the engine.
4. Before the first scan of a session of the backend, the gateway adds the key with which it signs scans
   (:mod:`gateway.scans.scan_signatures`).

Not guaranteed: that executors can run the engine. They need the packages that the driver needs.

Source: [spark-connect-proto base.proto], [spark-data-source].
"""

import asyncio
import importlib.util
import marshal
import pickle
import re
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache
from pyspark.sql.connect.proto import relations_pb2

from engine.fingerprint import ENGINE, fingerprint, source_files
from engine.scan_source import FORMAT
from engine.spark import LodgeDataSource
from gateway.backends.backend_session import BackendSession
from gateway.blocking_work.pools import Pool
from gateway.errors import BackendError, GatewayError, backend_python
from gateway.messages.error_status import condition_of
from gateway.scans.scan_signatures import scan_key

_MAX_SESSIONS = 100_000
_UNKNOWN_SOURCE = "DATA_SOURCE_NOT_FOUND"
_INSTALLED = "DATA_SOURCE_ALREADY_EXISTS"
_PYTHON_FAILED = "PYTHON_DATA_SOURCE_ERROR"
_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\] Python in worker has different version: (?P<version>\d+\.\d+)")
_MISSING_PACKAGE = re.compile(r"(?:No module named|cannot import name) '(?P<module>[\w.]+)'")
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EngineArtifact:
    """The engine, in the form in which a session of a backend receives it.

    Attributes:
        name: The name of the artifact. Artifacts with equal names are interchangeable.
        archive: A zip archive with the engine. It also contains the byte code for the Python version of the gateway,
            because Python does not store the byte code of modules in archives.
        data_source: The pickled class of the data source, which refers to the archive.
        python_version: The Python version of the gateway.
    """

    name: str
    archive: bytes
    data_source: bytes
    python_version: str


@cache
def engine_artifact() -> EngineArtifact:
    """Return the engine of this gateway as an artifact."""
    version = "{}.{}".format(*sys.version_info)
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, source in source_files().items():
            for name, data in ((path, source), (f"{path}c", _byte_code(path, source))):
                archive.writestr(zipfile.ZipInfo(name, _ZIP_TIME), data, zipfile.ZIP_DEFLATED)
    return EngineArtifact(
        f"lodge-engine-{fingerprint()}-{sys.implementation.cache_tag}.zip",
        target.getvalue(),
        pickle.dumps(LodgeDataSource, protocol=4),
        version,
    )


def _byte_code(path: str, source: bytes) -> bytes:
    """Return the contents of a ``.pyc`` file whose source is not compared with it (PEP 552)."""
    unchecked = (1).to_bytes(4, "little")
    header = importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source)
    return header + marshal.dumps(compile(source, path, "exec", dont_inherit=True))


class EngineDelivery:
    """Brings the engine to the sessions of backends.

    Args:
        pool: The threads that build the artifact.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._done: LRUCache[str, bool] = LRUCache(_MAX_SESSIONS)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def require(self, session: BackendSession) -> None:
        """Bring the engine to a session if the session does not have it.

        Raises:
            GatewayError: If the backend cannot run the engine, or a call fails.
        """
        key = session.server_side_session_id
        if key in self._done:
            return
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key in self._done:
                return
            await self._bring(session)
            if key:
                self._done[key] = True

    async def _bring(self, session: BackendSession) -> None:
        await self._bring_engine(session)
        key = scan_key()
        await session.add_artifact(f"files/{key.file_name}", key.secret)

    async def _bring_engine(self, session: BackendSession) -> None:
        failure = first = await _check(session)
        if first is None:
            return
        artifact = await self._pool.run(engine_artifact)
        await session.add_artifact(f"pyfiles/{artifact.name}", artifact.archive)
        try:
            failure = await _register(session, artifact, artifact.python_version)
        except BackendError as error:
            if condition_of(error.error) != _INSTALLED:
                raise
            raise _refused(first) from error
        other = None if failure is None else _OTHER_PYTHON.search(str(failure))
        if other is not None:
            failure = await _register(session, artifact, other["version"])
        if failure is not None:
            raise _refused(failure)
        log.info("engine_sent", backend=session.address, artifact=artifact.name)


async def _register(session: BackendSession, artifact: EngineArtifact, python_version: str) -> BackendError | None:
    """Register the data source, for a backend with the given Python version. Return the error if it cannot be used.

    Raises:
        BackendError: If the backend refuses the data source.
    """
    await session.register_data_source(FORMAT, artifact.data_source, python_version)
    return await _check(session)


async def _check(session: BackendSession) -> BackendError | None:
    """Return None if the session has the engine of this gateway. Otherwise, return the error of the backend.

    Raises:
        BackendError: If the backend cannot be asked.
    """
    relation = relations_pb2.Relation()
    relation.read.data_source.format = FORMAT
    relation.read.data_source.options[ENGINE] = fingerprint()
    try:
        await session.analyze_schema(relation)
    except BackendError as error:
        if condition_of(error.error) in (_UNKNOWN_SOURCE, _PYTHON_FAILED):
            return error
        raise
    return None


def _refused(failure: BackendError) -> GatewayError:
    """Return the error for a backend that cannot run the engine."""
    text = str(failure)
    other, missing = _OTHER_PYTHON.search(text), _MISSING_PACKAGE.search(text)
    if other is not None:
        return backend_python(failure.backend, f"its Spark runs Python {other['version']}")
    if missing is None:
        return failure
    module = missing["module"].partition(".")[0]
    if module in sys.stdlib_module_names:
        return backend_python(failure.backend, "its Spark runs an older version of Python")
    return backend_python(failure.backend, f"its Python environment has no package [{module}]")
