"""Finds the requests that contain names to resolve, and resolves these names.

Most requests do not mention a workspace and do not embed a statement. For these requests, the only cost is a search for
words in the bytes of the request. The other requests need more expensive steps: visiting all messages of the plan,
reading the record and the settings of the session, and accessing the files that the request refers to.

Guarantees:

1. If a request does not need changes, exactly the same bytes are returned.
2. Every request that can contain a plan is examined, regardless of the size, compression or depth of the plan.
3. No step blocks other sessions. Large requests are processed in threads, and files are accessed in threads.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf.message import Message
from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2

from engine.scan_source import FORMAT
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.request_pools import RequestPools
from gateway.messages.requests import Request, SessionKey
from gateway.messages.statement_request import StatementRequest
from gateway.names.embedded_statements import CHANGING_WORDS, RUNNING_WORDS, TextPlace, may_embed_statement
from gateway.names.file_metadata import mentions_file_metadata
from gateway.names.path_checks import PathChecks
from gateway.names.plan_messages import find_messages_with_names, find_statement_texts
from gateway.names.plan_resolver import PlanResolver
from gateway.names.scan_relations import uses_engine
from gateway.names.word_search import WordSearch
from gateway.plans.plan_decoding import DecodedAnalysis, DecodedPlan, PlanDecoder
from gateway.plans.sql_relations import find_sql_root, find_statement
from gateway.scans.plannings import Plannings
from gateway.scans.scan_summary import ScanSummary
from gateway.sql.sql_texts import SqlTexts
from gateway.stored_tables.table_plans import FILE_METADATA
from workspace.workspaces import Workspaces

GetResolver = Callable[[SqlTexts], Awaitable[PlanResolver]]
"""Reads the record and settings of a session, and returns its name resolver for the SQL texts of a request."""

_PlanScans = Callable[[Message], Coroutine[Any, Any, Sequence[ScanSummary]]]

_BYTES_PER_CHARACTER = 8  # walking a message is faster than parsing a text
_CHANGING = WordSearch(CHANGING_WORDS)
_RUNNING = WordSearch(RUNNING_WORDS)


@dataclass(frozen=True, slots=True)
class ResolvedAnalysis:
    """An ``AnalyzePlan`` request with all names resolved.

    Attributes:
        data: The encoded request.
        scans: What is known about its scans.
    """

    data: bytes
    scans: Sequence[ScanSummary] = ()


class RequestResolver:
    """Resolves the names in requests.

    Args:
        workspaces: The configured workspaces.
        paths: The check of the paths in requests.
        pools: The threads and the memory for large requests.
        plannings: The statements whose scans are being planned.
        plans: Decodes plans.
    """

    def __init__(
        self,
        workspaces: CurrentWorkspaces,
        paths: PathChecks,
        pools: RequestPools,
        plannings: Plannings,
        plans: PlanDecoder,
    ) -> None:
        self._plannings = plannings
        self._workspaces = workspaces
        self._paths = paths
        self._pools = pools
        self._plans = plans
        self._cached_searches: tuple[Workspaces, tuple[WordSearch, WordSearch]] | None = None

    async def find_resolver(
        self, request: Request, decoded: DecodedPlan, get_resolver: GetResolver
    ) -> PlanResolver | None:
        """Return the resolver for the plan of an ``ExecutePlan`` request. None if the plan needs none.

        Args:
            request: The request.
            decoded: The plan of the request.
            get_resolver: A function that returns the resolver of the session.

        Raises:
            GatewayError: If the storage or the backend fails.
        """
        get = partial(get_resolver, decoded.texts)
        resolver = await self._get_needed_resolver(request.data, decoded.plan, get, is_needed=decoded.is_compressed)
        return None if resolver is None else await resolver.with_file_metadata(decoded.plan)

    async def resolve_names(self, decoded: DecodedPlan, resolver: PlanResolver) -> bool:
        """Resolve the names in the plan of an ``ExecutePlan`` request, in place. Return whether the plan has changed.

        Args:
            decoded: The plan of the request.
            resolver: The resolver, which plans the scans of the plan.

        Raises:
            GatewayError: If a name cannot be resolved, or the plan is not allowed.
        """
        return await self._workspaces.reads.run_or_abandon(resolver.resolve_statement, decoded.plan)

    async def plan_execution(self, request: Request, decoded: DecodedPlan, resolver: PlanResolver) -> Request:
        """Plan the scans of an ``ExecutePlan`` request.

        Args:
            request: The request.
            decoded: The plan of the request, with all names resolved.
            resolver: The resolver of the session.

        Returns:
            The request for the backend.

        Raises:
            GatewayError: If a scan cannot be planned.
        """
        if await self._pools.decode(decoded.size_bytes, uses_engine, decoded.plan):
            await self._plannings.run(request.key, request.read_statement(), resolver.plan_scans(decoded.plan))
        encoded = await self._plans.encode(decoded)
        return await self._pools.decode(len(encoded), request.with_plan, encoded)

    async def resolve_analysis(self, key: SessionKey, request: bytes, get_resolver: GetResolver) -> "ResolvedAnalysis":
        """Resolve the names in an ``AnalyzePlan`` request.

        Args:
            key: The session of the request.
            request: The encoded request.
            get_resolver: A function that returns the resolver of the session.

        Raises:
            GatewayError: If a name cannot be resolved, or the plan is not allowed.
        """
        async with self._plans.decode_analysis(request) as analysis:
            message, is_compressed = analysis.message, bool(analysis.compressed)
            searched = None if is_compressed else request
            await self._paths.check(searched, analysis.messages, analysis.size_bytes, analysis.texts)
            if not is_compressed and not await self._may_concern_lodge(request):
                return ResolvedAnalysis(request)
            get = partial(get_resolver, analysis.texts)
            resolver = await self._get_needed_resolver(request, message, get, is_needed=is_compressed)
            if resolver is None:
                return ResolvedAnalysis(request)
            for each in (message, *(decoded.plan for _, decoded in analysis.compressed)):
                resolver = await resolver.with_file_metadata(each)
            if not await self._workspaces.reads.run_or_abandon(_resolve_analysis, analysis, resolver):
                return ResolvedAnalysis(request)
            scans: list[ScanSummary] = []
            for plan, compressed in analysis.compressed:
                scans += await self._plan_scans(key, resolver.plan_scans, compressed.plan, compressed.size_bytes)
                plan.CopyFrom(compressed.to_plan())
            scans += await self._plan_scans(key, resolver.plan_scans, message, len(request))
            return ResolvedAnalysis(await self._pools.decode(analysis.size_bytes, message.SerializeToString), scans)

    async def _plan_scans(
        self, key: SessionKey, plan_scans: _PlanScans, message: Message, size_bytes: int
    ) -> Sequence[ScanSummary]:
        """Plan the scans of a request without an operation. A stop or an interrupt of all operations ends this."""
        if not await self._pools.decode(size_bytes, uses_engine, message):
            return await plan_scans(message)
        return await self._plannings.run(key, StatementRequest(key.client_session_id), plan_scans(message))

    async def _get_needed_resolver(
        self, request: bytes, message: Message, get_resolver: Callable[[], Awaitable[PlanResolver]], *, is_needed: bool
    ) -> PlanResolver | None:
        """Return the resolver of the session. None if the request does not need it."""
        if is_needed:
            return await get_resolver()
        names, workspaces = self._searches()
        if await names.matches(request, self._pools):
            if await workspaces.matches(request, self._pools):
                return await get_resolver()
            if await self._pools.parse(len(request) // _BYTES_PER_CHARACTER, mentions_file_metadata, message):
                resolver = await get_resolver()
                return resolver if resolver.tables else None
        words = _RUNNING if _is_sql_statement(message) else _CHANGING
        if not await words.matches(request, self._pools):
            return None
        if not await self._pools.parse(len(request) // _BYTES_PER_CHARACTER, _check_texts, message):
            return None
        resolver = await get_resolver()
        return resolver if resolver.tables else None

    async def _may_concern_lodge(self, request: bytes) -> bool:
        names, _ = self._searches()
        return await names.matches(request, self._pools) or await _CHANGING.matches(request, self._pools)

    def _searches(self) -> tuple[WordSearch, WordSearch]:
        """Return two searches for the names of workspaces and of Lodge's data source.

        The first one also finds the column ``_metadata``. An ordinary request is searched only once.
        """
        now = self._workspaces.now
        if self._cached_searches is None or self._cached_searches[0] is not now:
            words = (*{name.partition(".")[0] for name in now.by_name}, FORMAT)
            self._cached_searches = now, (WordSearch((*words, FILE_METADATA)), WordSearch(words))
        return self._cached_searches[1]


def _is_sql_statement(message: Message) -> bool:
    """Return whether a plan is executed, and is a SQL text without references to other relations."""
    if not isinstance(message, base_pb2.Plan):
        return False
    relation = find_statement(message)
    return relation is not None and relation.HasField("sql")


def _check_texts(message: Message) -> bool:
    """Return whether a SQL text of a plan may embed a statement."""
    found = find_messages_with_names(message)
    root = find_sql_root(message) if isinstance(message, base_pb2.Plan) else None
    statements = find_statement_texts(found, root)
    for each in found:
        if isinstance(each, relations_pb2.Relation) and each.HasField("sql"):
            place = TextPlace.COMMAND if id(each) in statements else TextPlace.PLAN
            if may_embed_statement(each.sql.query, place):
                return True
        elif isinstance(each, commands_pb2.SqlCommand) and may_embed_statement(each.sql, TextPlace.COMMAND):
            return True
    return False


def _resolve_analysis(analysis: DecodedAnalysis, resolver: PlanResolver) -> bool:
    """Resolve the names in an ``AnalyzePlan`` request in place. Return whether the request was changed."""
    changed = False
    for _, decoded in analysis.compressed:
        changed |= resolver.resolve(decoded.plan)
    return resolver.resolve(analysis.message) or changed
