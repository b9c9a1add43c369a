"""Which requests contain names to resolve, and how they are resolved.

Most requests name no workspace and embed no statement. They cost a search for words in their bytes. Each further step
costs more: a walk over the plan, the record and settings of the session, the files that the request names.

Guarantees:

1. A request that needs no change is returned as the same bytes.
2. Every request that may contain a plan is examined, however large, compressed or deep the plan is. A plan that cannot
   be decoded passes only if it names no workspace and cannot change a temporary table of the session.
3. No step blocks other sessions: large requests and access to files use threads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

import zstandard
from google.protobuf.message import Message
from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2

from engine.scan_source import FORMAT
from gateway.current_workspaces import CurrentWorkspaces
from gateway.errors import GatewayError
from gateway.names.deep_plans import DeepPlan
from gateway.names.embedded_statements import CHANGING_WORDS, RUNNING_WORDS, TextPlace, may_embed_statement
from gateway.names.plan_messages import find_command_texts, find_messages_with_names
from gateway.names.plan_resolver import PlanResolver
from gateway.names.word_search import WordSearch
from gateway.plan_decoding import INLINE_BYTES, UnreadablePlanError, decode_request, may_be_compressed, replace_plan
from gateway.sql.name_syntax import parse_name
from gateway.sql_relations import find_sql_relation
from workspace.workspaces import Workspaces

_Result = TypeVar("_Result")
GetResolver = Callable[[], Awaitable[PlanResolver]]
"""Reads the session's record and settings, and returns what resolves its names."""

_TARGETS: Mapping[str, Callable[[commands_pb2.Command], str]] = {
    "write_operation": lambda command: command.write_operation.table.table_name,
    "write_operation_v2": lambda command: command.write_operation_v2.table_name,
    "create_dataframe_view": lambda command: command.create_dataframe_view.name,
    "merge_into_table_command": lambda command: command.merge_into_table_command.target_table_name,
    "write_stream_operation_start": lambda command: command.write_stream_operation_start.table_name,
}
_COMPRESSED = WordSearch([zstandard.FRAME_HEADER])
_CHANGING = WordSearch(CHANGING_WORDS)
_RUNNING = WordSearch(RUNNING_WORDS)


class RequestResolver:
    """Resolves the names in requests.

    Args:
        workspaces: The current workspaces.
    """

    def __init__(self, workspaces: CurrentWorkspaces) -> None:
        self._workspaces = workspaces
        self._cached_search: tuple[Workspaces, WordSearch] | None = None

    async def resolve_execution(self, request: bytes, plan: base_pb2.Plan, get_resolver: GetResolver) -> bytes:
        """Resolve the names in an ``ExecutePlan`` request.

        Args:
            request: The request.
            plan: Its plan, decompressed.
            get_resolver: Returns the resolver of the session.

        Raises:
            GatewayError: If a name cannot be resolved, or the plan must not run.
        """
        is_compressed = await _COMPRESSED.matches(request) and may_be_compressed(request)
        resolver = await self._get_needed_resolver(request, plan, get_resolver, is_needed=is_compressed)
        if resolver is None or not await asyncio.to_thread(resolver.resolve, plan):
            return request
        return await _run_in_thread_if_large(len(request), lambda: replace_plan(request, plan))

    async def resolve_analysis(self, request: bytes, get_resolver: GetResolver) -> bytes:
        """Resolve the names in an ``AnalyzePlan`` request.

        Args:
            request: The request.
            get_resolver: Returns the resolver of the session.

        Raises:
            GatewayError: If a name cannot be resolved, or the plan must not run.
            UnreadablePlanError: If a plan is too deep to decode.
        """
        is_compressed = await _COMPRESSED.matches(request)
        if not is_compressed and not await self._may_concern_lodge(request):
            return request
        message = await _run_in_thread_if_large(
            len(request), lambda: decode_request(base_pb2.AnalyzePlanRequest, request)
        )
        resolver = await self._get_needed_resolver(request, message, get_resolver, is_needed=is_compressed)
        if resolver is None or not await asyncio.to_thread(resolver.resolve, message):
            return request
        return await _run_in_thread_if_large(len(request), message.SerializeToString)

    async def resolve_deep_plan(
        self, request: bytes, kind: type[Message], error: UnreadablePlanError, get_resolver: GetResolver
    ) -> bytes:
        """Resolve the names in a request whose plan is too deep to decode.

        Args:
            request: The request.
            kind: The type of the request.
            error: The error from decoding it.
            get_resolver: Returns the resolver of the session.

        Raises:
            GatewayError: If a name cannot be resolved, or the plan must not run.
        """
        try:
            if error.was_compressed:
                raise error
            plan = await asyncio.to_thread(DeepPlan, request, kind)
            command = plan.decode_command()
            if command is None and not await self._may_concern_lodge(request):
                return request
            resolver = await get_resolver()
            if command is not None:
                _refuse_command(command, resolver)
            return await asyncio.to_thread(_resolve_parts, plan, resolver) or request
        except UnreadablePlanError:
            await self._refuse_unreadable(error, get_resolver)
            return request

    async def _refuse_unreadable(self, error: UnreadablePlanError, get_resolver: GetResolver) -> None:
        """Raise a GatewayError if a plan that cannot be decoded must not pass."""
        if await self._workspace_search().matches(error.data):
            raise _too_deep("names a workspace")
        if await _CHANGING.matches(error.data) and (await get_resolver()).tables:
            raise _too_deep("may change a temporary table of this session")

    async def _get_needed_resolver(
        self, request: bytes, message: Message, get_resolver: GetResolver, *, is_needed: bool
    ) -> PlanResolver | None:
        """Return the resolver of the session, or None if nothing needs it."""
        if is_needed or await self._workspace_search().matches(request):
            return await get_resolver()
        words = _RUNNING if _is_sql_command(message) else _CHANGING
        if not await words.matches(request):
            return None
        if not await _run_in_thread_if_large(len(request), lambda: any(_check_texts(message))):
            return None
        resolver = await get_resolver()
        return resolver if resolver.tables else None

    async def _may_concern_lodge(self, request: bytes) -> bool:
        return await self._workspace_search().matches(request) or await _CHANGING.matches(request)

    def _workspace_search(self) -> WordSearch:
        """Return the search for workspaces and for Lodge's own data source."""
        now = self._workspaces.now
        if self._cached_search is None or self._cached_search[0] is not now:
            roots = {name.partition(".")[0] for name in now.by_name}
            self._cached_search = now, WordSearch((*roots, FORMAT))
        return self._cached_search[1]


def _is_sql_command(message: Message) -> bool:
    """Return whether a plan is a SQL command without references to other relations."""
    if not isinstance(message, base_pb2.Plan):
        return False
    relation = find_sql_relation(message)
    return relation is not None and relation.HasField("sql")


def _check_texts(message: Message) -> Iterator[bool]:
    """Yield for each SQL text of a plan whether it may embed a statement."""
    found = find_messages_with_names(message)
    commands = find_command_texts(found)
    for each in found:
        if isinstance(each, relations_pb2.Relation) and each.HasField("sql"):
            place = TextPlace.COMMAND if id(each) in commands else TextPlace.PLAN
            yield may_embed_statement(each.sql.query, place)
        elif isinstance(each, commands_pb2.SqlCommand) and each.sql:
            yield may_embed_statement(each.sql, TextPlace.COMMAND)


def _resolve_parts(plan: DeepPlan, resolver: PlanResolver) -> bytes | None:
    """Return the request with its names resolved, or None if nothing changed."""
    changed = False
    for part in plan.parts:
        changed |= resolver.resolve(part, plan.aliases)
    return plan.encode() if changed else None


def _refuse_command(command: commands_pb2.Command, resolver: PlanResolver) -> None:
    """Raise a GatewayError for a command that Lodge executes.

    Lodge needs the whole plan to execute it.
    """
    kind = command.WhichOneof("command_type")
    name = _TARGETS[kind](command) if kind is not None and kind in _TARGETS else ""
    if kind == "create_dataframe_view" and command.create_dataframe_view.is_global and resolver.tables:
        raise _too_deep("creates a view for other sessions while this session has temporary tables")
    if name and resolver.concerns_lodge(parse_name(name)):
        raise _too_deep(f"is a command about [{name}]")


async def _run_in_thread_if_large(size_bytes: int, work: Callable[[], _Result]) -> _Result:
    return await asyncio.to_thread(work) if size_bytes > INLINE_BYTES else work()


def _too_deep(reason: str) -> GatewayError:
    return GatewayError(
        "LODGE_PLAN_TOO_DEEP",
        "54001",
        f"The plan is nested too deep for the gateway to read, and it {reason}. Split it: name a part of it with "
        "df.createOrReplaceTempView(...), and continue with spark.table(...).",
    )
