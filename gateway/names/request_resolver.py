"""Which requests are looked at for names, how closely, and what becomes of them.

Why it exists: most requests name no workspace and hide no statement, and pay a look at their bytes. What is asked for
beyond that costs more at each step: a walk over the plan, the session's record and settings, the files that it names.

Guarantees:

1. A request in which nothing is changed passes as the bytes that it came as.
2. Every request that may hold a plan is looked at, however large, compressed or deep it is. What cannot be read to its
   end passes only if it names no workspace, and cannot change a temporary table of the session.
3. No step keeps other sessions waiting: what is large, and what reads files, is done in a thread.
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
from gateway.names.plan_messages import command_relations, find_messages_with_names
from gateway.names.plan_resolver import PlanResolver
from gateway.names.word_search import WordSearch
from gateway.plan_decoding import INLINE_BYTES, UnreadablePlanError, decode_request, may_be_compressed, replace_plan
from gateway.sql.name_syntax import parse_name
from gateway.sql_relations import find_sql_relation
from workspace.workspaces import Workspaces

_Result = TypeVar("_Result")
AskNames = Callable[[], Awaitable[PlanResolver]]
"""Asks the session's record and its backend what names mean."""

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
        workspaces: As they are now.
    """

    def __init__(self, workspaces: CurrentWorkspaces) -> None:
        self._workspaces = workspaces
        self._looked_for: tuple[Workspaces, WordSearch] | None = None

    async def resolve_execution(self, request: bytes, plan: base_pb2.Plan, ask: AskNames) -> bytes:
        """An ``ExecutePlan`` request with the names in its plan resolved.

        Args:
            request: The request.
            plan: Its plan, decompressed.
            ask: What names mean in the session.

        Raises: GatewayError.
        """
        is_compressed = await _COMPRESSED.finds_any(request) and may_be_compressed(request)
        names = await self._names(request, plan, ask, is_looked_at=is_compressed)
        if names is None or not await asyncio.to_thread(names.resolve, plan):
            return request
        return await _in_thread_if_large(len(request), lambda: replace_plan(request, plan))

    async def resolve_analysis(self, request: bytes, ask: AskNames) -> bytes:
        """An ``AnalyzePlan`` request with the names in its plans resolved.

        Raises: GatewayError, UnreadablePlanError.
        """
        may_be_compressed = await _COMPRESSED.finds_any(request)
        if not may_be_compressed and not await self._is_looked_at(request):
            return request
        message = await _in_thread_if_large(len(request), lambda: decode_request(base_pb2.AnalyzePlanRequest, request))
        names = await self._names(request, message, ask, is_looked_at=may_be_compressed)
        if names is None or not await asyncio.to_thread(names.resolve, message):
            return request
        return await _in_thread_if_large(len(request), message.SerializeToString)

    async def resolve_deep_plan(
        self, request: bytes, kind: type[Message], error: UnreadablePlanError, ask: AskNames
    ) -> bytes:
        """A request whose plan is deeper than the decoder follows, with the names in it resolved.

        Args:
            request: The request.
            kind: Of the request.
            error: Why it was not read.
            ask: What names mean in the session.

        Raises: GatewayError, if it must not pass.
        """
        try:
            if error.was_compressed:
                raise error
            plan = await asyncio.to_thread(DeepPlan, request, kind)
            command = plan.command()
            is_looked_at = command is not None or await self._is_looked_at(request)
            names = await ask() if is_looked_at else None
            if names is None:
                return request
            if command is not None:
                _refuse_command(command, names)
            return await asyncio.to_thread(_resolved_parts, plan, names) or request
        except UnreadablePlanError:
            await self._check_unreadable(error, ask)
            return request

    async def _check_unreadable(self, error: UnreadablePlanError, ask: AskNames) -> None:
        if await self._look().finds_any(error.data):
            raise _too_deep("names a workspace")
        if await _CHANGING.finds_any(error.data) and (await ask()).tables:
            raise _too_deep("may change a temporary table of this session")

    async def _names(
        self, request: bytes, message: Message, ask: AskNames, *, is_looked_at: bool
    ) -> PlanResolver | None:
        """What names mean, if that matters to the message; None if it does not."""
        if is_looked_at or await self._look().finds_any(request):
            return await ask()
        words = _RUNNING if _is_lone_command(message) else _CHANGING
        if not await words.finds_any(request):
            return None
        if not await _in_thread_if_large(len(request), lambda: any(_hidden(message))):
            return None
        names = await ask()
        return names if names.tables else None

    async def _is_looked_at(self, request: bytes) -> bool:
        return await self._look().finds_any(request) or await _CHANGING.finds_any(request)

    def _look(self) -> WordSearch:
        """The look for workspaces, and for Lodge's own data source."""
        now = self._workspaces.now
        if self._looked_for is None or self._looked_for[0] is not now:
            roots = {name.partition(".")[0] for name in now.by_name}
            self._looked_for = now, WordSearch((*roots, FORMAT))
        return self._looked_for[1]


def _is_lone_command(message: Message) -> bool:
    """Whether a plan is the text of a SQL command, and no other."""
    if not isinstance(message, base_pb2.Plan):
        return False
    relation = find_sql_relation(message)
    return relation is not None and relation.HasField("sql")


def _hidden(message: Message) -> Iterator[bool]:
    """Of each text in a plan, whether it must be looked at."""
    found = find_messages_with_names(message)
    commands = {
        id(each) for one in found if isinstance(one, commands_pb2.SqlCommand) for each in command_relations(one)
    }
    for each in found:
        if isinstance(each, relations_pb2.Relation) and each.HasField("sql"):
            place = TextPlace.COMMAND if id(each) in commands else TextPlace.PLAN
            yield may_embed_statement(each.sql.query, place)
        elif isinstance(each, commands_pb2.SqlCommand) and each.sql:
            yield may_embed_statement(each.sql, TextPlace.COMMAND)


def _resolved_parts(plan: DeepPlan, names: PlanResolver) -> bytes | None:
    """The request with its names resolved; None if nothing was changed."""
    changed = False
    for part in plan.parts:
        changed |= names.resolve(part, plan.aliases)
    return plan.encoded() if changed else None


def _refuse_command(command: commands_pb2.Command, names: PlanResolver) -> None:
    """Lodge answers commands about temporary tables and workspaces, and needs their plans whole."""
    kind = command.WhichOneof("command_type")
    name = _TARGETS[kind](command) if kind is not None and kind in _TARGETS else ""
    if kind == "create_dataframe_view" and command.create_dataframe_view.is_global and names.tables:
        raise _too_deep("makes a view for other sessions while this one has temporary tables")
    if name and names.concerns_lodge(parse_name(name)):
        raise _too_deep(f"is a command about [{name}]")


async def _in_thread_if_large(size_bytes: int, work: Callable[[], _Result]) -> _Result:
    return await asyncio.to_thread(work) if size_bytes > INLINE_BYTES else work()


def _too_deep(what: str) -> GatewayError:
    return GatewayError(
        "LODGE_PLAN_TOO_DEEP",
        "54001",
        f"The plan is nested too deep to be looked through, and {what}. Give a part of it a name first: "
        "df.createOrReplaceTempView(...), then go on from spark.table(...).",
    )
