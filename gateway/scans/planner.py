"""Plans scans: lists their files, and discovers their schema.

Without a plan, Spark asks the data source for the schema of a scan in one process beside the driver. With a plan, the
relation contains the schema and the files, so this process reads nothing.

Guarantees:

1. Values are read only on the executors, by a discovery job (:mod:`gateway.scans.discovery_job`). The gateway lists
   files, and merges schemas.
2. A file that was examined before, and has not changed, is not examined again
   (:mod:`gateway.scans.remembered_schemas`). This is also true if the statement ended before all files were examined,
   and if another replica has examined the file.
3. A planned scan returns the same rows, or the same error, as the scan without a plan.
4. Scans whose options a client has made are not planned (:mod:`gateway.scans.scan_sources`).
5. A principal lists at most ``MAX_LISTINGS`` directories of a workspace at the same time. Further scans of the
   principal wait, and occupy no thread. A listing ends if its statement ends or fails.
6. The schemas and lists of files of a statement with several scans have at most ``MAX_PLANNED_BYTES``.

Scans with a declared schema are not planned, because they need no discovery.

Source: [architecture "Gateway"], [scan-schema-tracker "Subsequent Readers and Schema Changes"].
"""

import asyncio
import secrets
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache
from pyspark.sql.connect.proto import relations_pb2

from engine.discovery import FailedDiscoveryError
from engine.error_report import ErrorReport
from engine.errors import EngineError
from engine.file_list import FILES, pack_files
from engine.file_scan.file_scan import FileScan
from engine.file_scan.schema_conflict import FileConflictError
from engine.file_scan.schema_discovery import merge_needed_columns, sample_files
from engine.scan_source import PLANNED, SINGLE_USE, SOURCE_OPTIONS, ScanSource
from engine.schema import TupleSchema
from engine.spark_schema import to_spark_schema
from engine.storage.listed_file import ListedFile
from gateway.backends.backend_operations import OnProgress
from gateway.backends.backend_session import BackendSession
from gateway.blocking_work.file_systems import file_systems
from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError, ScanFailedError, storage_unavailable
from gateway.scans.discovery_job import find_place, find_schemas
from gateway.scans.engine_artifact import EngineDelivery
from gateway.scans.remembered_schemas import ExaminedScan, RememberedSchemas
from gateway.scans.scan_signatures import sign_scan
from gateway.scans.scan_sources import is_of_gateway
from gateway.scans.scan_summary import ScanSummary, summarize_plan, summarize_unplanned
from gateway.scans.schema_cache import Examination
from gateway.scans.spark_readers import FileSplit, build_relation, split_files
from workspace.identifiers import Principal
from workspace.schema_segments import SchemaSegments
from workspace.workspaces import Workspace, Workspaces

Relation = relations_pb2.Relation

_Listing = tuple[FileScan, Sequence[ListedFile], Sequence[ListedFile]]
_MAX_SESSIONS = 100_000

_WITHOUT_EFFECT = frozenset({"partition_bytes", "discovery", "sample_files", "spark_readers"})
"""The options that do not affect the schema of a file."""

MAX_LISTINGS = 4
"""How many directories of a workspace the gateway lists for one principal at the same time."""

MAX_PLANNED_BYTES = 32 * 1024 * 1024
"""How many bytes of schemas and lists of files a statement with several scans may have.

The size of one scan is limited by the size of a message to the backend.
"""

log = structlog.get_logger(__name__)


class ScanPlanner:
    """Plans the scans of all sessions of a replica.

    Args:
        reads: The threads that merge schemas, and list files if there are no other threads for this purpose.
        count: Called with the numbers of files whose schema was known, and had to be discovered.
        lists_files: Whether the gateway may list the files on behalf of its clients. Otherwise, the backend lists the
            files, and discovers their schema.
        spark_readers: Whether Spark's own reader may read files whose schema does not drift, unless a scan has the
            option of this name.
        segments: The storage on which replicas share schemas. None to remember them only in memory.
        listings: The threads that list files.
    """

    def __init__(
        self,
        reads: Pool,
        count: Callable[[int, int], None],
        *,
        lists_files: bool = True,
        spark_readers: bool = False,
        segments: SchemaSegments | None = None,
        listings: Pool | None = None,
    ) -> None:
        self._lists_files = lists_files
        self._spark_readers = spark_readers
        self._reads = reads
        self._listings = listings or reads
        self._turns: WeakValueDictionary[tuple[Principal, str], asyncio.Semaphore] = WeakValueDictionary()
        self._count = count
        self._remembered = RememberedSchemas(reads, segments)
        self._engines = EngineDelivery(reads)
        self._persisting: LRUCache[str, bool] = LRUCache(_MAX_SESSIONS)

    def keep_data_frames(self, session: "SessionScans") -> None:
        """Plan scans of a session so that Spark finds the DataFrames that the session has persisted.

        Spark finds the data only if its scan has the same options. So no filters are pushed down from now on.
        """
        self._persisting[session.backend.server_side_session_id] = True

    async def plan(
        self,
        scans: Iterable[Relation],
        session: "SessionScans",
        spark_formats: Collection[str] = (),
        single: Sequence[Relation] = (),
    ) -> Sequence[ScanSummary]:
        """Add the files and the schema to scans, in place, and bring the engine to the backend.

        Args:
            scans: The relations of the scans. There are none if only the SQL text contains the options of a scan.
            session: The session of the client.
            spark_formats: The formats of the files that Spark's own readers may read.
            single: The scans that have only one use (:mod:`gateway.scans.single_use`). Spark may push filters down to
                them.

        Returns:
            What is known about the scans of the gateway's workspaces.

        Raises:
            GatewayError: If a file cannot be listed or examined, the schemas of two files conflict, the backend cannot
                run the engine, or the schemas and lists of files of several scans are too large together.
        """
        await self._engines.require(session.backend)
        summaries: list[ScanSummary] = []
        planned_bytes = 0
        is_persisting = session.backend.server_side_session_id in self._persisting
        for scan in scans:
            source = scan.read.data_source
            if not is_of_gateway(source.options, session.workspaces):
                continue  # without a signature, the engine refuses it
            if not is_persisting and any(scan is one for one in single):
                source.options[SINGLE_USE] = secrets.token_hex(8)
            if self._lists_files and not source.schema:
                summaries.append(await self._plan(scan, session, spark_formats))
                planned_bytes += scan.ByteSize()
                if planned_bytes > MAX_PLANNED_BYTES and len(summaries) > 1:
                    raise _too_large()
            else:
                sign_scan(source)
                scan_source = ScanSource.from_options(source.options)
                summaries.append(summarize_unplanned(scan_source, is_declared=bool(source.schema)))
        return summaries

    async def _plan(self, relation: Relation, session: "SessionScans", spark_formats: Collection[str]) -> ScanSummary:
        source = relation.read.data_source
        options = dict(source.options)
        try:
            scan, files, sampled = await self._list(options, session)
            schemas, examined = await self._schemas(scan, files, sampled, options, session)
            try:
                planned = await self._reads.run_or_abandon(_merge, scan, files, sampled, schemas)
                uses_spark = self._spark_readers if scan.options.spark_readers is None else scan.options.spark_readers
                split = None
                if spark_formats and uses_spark:
                    choose = partial(split_files, scan, planned.columns, files, schemas, spark_formats)
                    workspace = session.workspaces.by_name[scan.source.workspace]
                    split = await self._reads.run_or_abandon(_with_access, workspace, choose)
            except FileConflictError as conflict:
                raise conflict.at(await find_place(session.backend, options, conflict)) from None
        except EngineError as error:
            lines = traceback.format_exception(error)
            raise _scan_failed(ErrorReport.of(error), "".join(lines)) from error
        except FailedDiscoveryError as error:
            raise _scan_failed(error.report, error.traceback) from None
        source.schema = planned.schema
        source.options[FILES] = planned.files
        source.options[PLANNED] = "true"
        if split is None:
            await self._reads.run_or_abandon(sign_scan, source)
        else:
            await self._reads.run_or_abandon(_replace, relation, split, scan.source.workspace, planned)
        return await self._reads.run_or_abandon(
            summarize_plan, scan.source, files, sampled, examined=examined, split=split
        )

    async def _list(self, options: Mapping[str, str], session: "SessionScans") -> _Listing:
        workspace = session.workspaces.by_name[ScanSource.from_options(options).workspace]
        key = session.principal, workspace.uri
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = asyncio.Semaphore(MAX_LISTINGS)
        has_ended = threading.Event()
        async with turn:
            try:
                return await self._listings.run_or_abandon(_list, options, workspace, has_ended)
            finally:
                has_ended.set()

    async def _schemas(
        self,
        scan: FileScan,
        files: Sequence[ListedFile],
        sampled: Sequence[ListedFile],
        options: Mapping[str, str],
        session: "SessionScans",
    ) -> tuple[Sequence[bytes], int]:
        """Return the encoded schema of each sampled file, and how many were examined, because it was not remembered."""
        of_files = {key: value for key, value in options.items() if key not in SOURCE_OPTIONS | _WITHOUT_EFFECT}
        examination = Examination(session.principal, scan.source.root, of_files)
        examined = ExaminedScan(examination, scan.source.path)
        known = await self._remembered.find(examined, sampled)
        unknown = await self._reads.run_or_abandon(_find_unknown, sampled, known)
        self._count(len(sampled) - len(unknown), len(unknown))
        found: Sequence[bytes] = ()
        if unknown:
            async with self._remembered.recording(examined, files) as remember:
                found = await find_schemas(
                    session.backend, options, unknown, self._reads, on_schema=remember, on_progress=session.on_progress
                )
        return await self._reads.run_or_abandon(_complete, known, found), len(unknown)


@dataclass(frozen=True, slots=True)
class SessionScans:
    """Plans the scans of one session.

    Attributes:
        planner: The planner of the replica.
        principal: The client.
        backend: The session at the backend.
        workspaces: All workspaces.
        on_progress: Called with each progress message of discovery. None if the client cannot receive it.
    """

    planner: ScanPlanner
    principal: Principal
    backend: BackendSession
    workspaces: Workspaces
    on_progress: OnProgress | None = None

    def keep_data_frames(self) -> None:
        """See :meth:`ScanPlanner.keep_data_frames`."""
        self.planner.keep_data_frames(self)

    async def plan(
        self,
        scans: Iterable[Relation],
        spark_formats: Collection[str] = (),
        single: Sequence[Relation] = (),
    ) -> Sequence[ScanSummary]:
        """Add the files and the schema to scans, in place.

        Args:
            scans: The relations of the scans.
            spark_formats: The formats of the files that Spark's own readers may read.
            single: The scans that have only one use.

        Returns:
            What is known about the scans of the gateway's workspaces.

        Raises:
            GatewayError: If a file cannot be listed or examined, or the schemas of two files conflict.
        """
        return await self.planner.plan(scans, self, spark_formats, single)


@dataclass(frozen=True, slots=True)
class _Planned:
    """What a scan reads.

    Attributes:
        columns: The columns.
        schema: The columns as a Spark type, in JSON.
        files: The packed list of files.
    """

    columns: TupleSchema
    schema: str
    files: str


def _list(options: Mapping[str, str], workspace: Workspace, has_ended: threading.Event) -> _Listing:
    """Return a scan, its files, and those whose schemas are merged.

    Raises:
        GatewayError: If the statement has ended, or the file system does not respond.
    """
    scan = FileScan.from_options(options)
    with file_systems.listing(workspace) as progress:

        def on_progress() -> None:
            progress()
            if has_ended.is_set():
                raise storage_unavailable(f"workspace [{workspace.name}]")

        files = scan.list_files(on_progress)
    return scan, files, sample_files(scan, files)


def _find_unknown(files: Sequence[ListedFile], known: Sequence[bytes | None]) -> Sequence[ListedFile]:
    return [file for file, schema in zip(files, known, strict=True) if schema is None]


def _complete(known: Sequence[bytes | None], found: Iterable[bytes]) -> Sequence[bytes]:
    """Return the known schemas, with the found ones where one was unknown."""
    remaining = iter(found)
    return [next(remaining) if schema is None else schema for schema in known]


def _merge(
    scan: FileScan, files: Sequence[ListedFile], sampled: Sequence[ListedFile], schemas: Sequence[bytes]
) -> _Planned:
    schema = merge_needed_columns(scan, files, sampled, schemas)
    return _Planned(schema, to_spark_schema(schema).json(), pack_files(files))


def _with_access(workspace: Workspace, split: Callable[[], FileSplit | None]) -> FileSplit | None:
    with file_systems.access(workspace):
        return split()


def _replace(relation: Relation, split: FileSplit, workspace: str, planned: _Planned) -> None:
    """Replace the relation of a planned scan by one in which Spark reads some of the files, or all of them."""
    rest = None
    if split.of_engine:
        rest = relations_pb2.Relation(read=relation.read)
        rest.read.data_source.options[FILES] = pack_files(split.of_engine)
        sign_scan(rest.read.data_source)
    found = build_relation(split, workspace, planned.columns, rest)
    found.common.CopyFrom(relation.common)
    relation.CopyFrom(found)


def _too_large() -> GatewayError:
    reason = f"the schemas and lists of files of its scans have more than {MAX_PLANNED_BYTES:,} bytes"
    return GatewayError(
        "LODGE_PLAN_TOO_LARGE",
        "54001",
        f"The gateway does not plan this statement: {reason}. Read fewer files in one statement, for example by "
        "storing a part of them in a temporary table.",
        {"reason": reason, "limit": str(MAX_PLANNED_BYTES)},
    )


def _scan_failed(report: ErrorReport, lines: str) -> ScanFailedError:
    log.warning(
        "scan_failed",
        condition=report.condition,
        reason=report.text,
        parameters=dict(report.parameters),
        traceback=lines.splitlines(),
    )
    return ScanFailedError(report.condition, report.sql_state, report.text, report.parameters)
