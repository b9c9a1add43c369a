"""What the gateway does with a plan: the route, the forwarded bytes or the error, and the names in the audit log.

This is the only module of the golden corpus that knows the modules of the gateway.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql.connect.proto import base_pb2

from gateway.auditing.audit import Audit
from gateway.auditing.statement_contents import describe_kind, read_contents
from gateway.backends.session_settings import SessionSettings
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.request_pools import RequestPools
from gateway.blocking_work.storage import make_workspace_reads
from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey, read_request
from gateway.names.path_checks import PathChecks
from gateway.names.plan_resolver import PlanResolver
from gateway.names.request_resolver import RequestResolver
from gateway.operations.drain import Drain
from gateway.plans.plan_decoding import PlanDecoder
from gateway.plans.sql_relations import find_sql, find_statement
from gateway.scans.plannings import Plannings
from gateway.sql.lexer import Dialect
from gateway.sql.sql_texts import SqlTexts
from gateway.sql.statement_error import StatementError
from gateway.sql.statement_parser import extract_query
from gateway.sql.statements import HasQuery
from gateway.statements.recognition import SqlRecognition
from workspace.identifiers import ClientSessionId, Principal, TableUuid
from workspace.records import TableState, TemporaryTable
from workspace.workspaces import Workspaces

_RANDOM_END = re.compile(r"_[0-9a-f]{8}\b")
_KEY = SessionKey(Principal("ada"), ClientSessionId("00000000-0000-4000-8000-000000000000"))
_TABLES = ("t", "t1", "T2", "tab1", "testData", "src", "empsalary", "onek", "v")
_OTHER_SETTINGS = SessionSettings(is_case_sensitive=True, dialect=Dialect(double_quoted_identifiers=True))


class Routes:
    """A gateway without sessions, backends and storage.

    Args:
        directory: An empty directory for the workspaces.
    """

    def __init__(self, directory: Path) -> None:
        for name in ("files", "tmp"):
            (directory / name).mkdir()
        (directory / "files" / "f.csv").write_text("a,b\n1,x\n")
        self._directory = str(directory)
        uris = {"dfs": (directory / "files").as_uri(), "dfs.tmp": (directory / "tmp").as_uri()}
        self._workspaces = Workspaces.from_uris(uris, "dfs.tmp")
        current = CurrentWorkspaces(self._workspaces, make_workspace_reads())
        self._pools = RequestPools()
        self._paths = PathChecks(current, Audit(), self._pools)
        self._decoder = PlanDecoder(self._pools)
        self._resolver = RequestResolver(current, self._paths, self._pools, Plannings(Drain()), self._decoder)
        self._tables = [
            TemporaryTable(name, TableUuid(f"00000000-0000-4000-8000-{number:012}"), TableState.READY, "parquet")
            for number, name in enumerate(_TABLES, 1)
        ]

    async def of_text(self, text: str) -> str:
        """Return what happens to a text, in each form in which a client can send it, and in several sessions."""
        return self._shown([await self._route(each, text) for each in _forms(text)])

    async def of_plan(self, plan: base_pb2.Plan) -> str:
        """Return what happens to a plan in several sessions."""
        return self._shown([await self._route(plan, "")])

    def _shown(self, found: Sequence[str]) -> str:
        return _RANDOM_END.sub("_{random}", "\n".join(found).replace(self._directory, "{directory}"))

    async def _route(self, plan: base_pb2.Plan, text: str) -> str:
        message = base_pb2.ExecutePlanRequest(session_id=_KEY.client_session_id, plan=plan)
        data = message.SerializeToString()
        contents = read_contents(data, with_text=False)
        parts = [f"audit {describe_kind(plan)} {contents}"]
        for settings, tables in (
            (SessionSettings(), ()),
            (SessionSettings(), self._tables),
            (_OTHER_SETTINGS, self._tables),
        ):
            try:
                parts.append(await self._in_session(message, text, settings, tables))
            except GatewayError as error:
                parts.append(f"{error.condition} {error} {sorted(error.parameters.items())}")
        return "\n".join(parts)

    async def _in_session(
        self,
        message: base_pb2.ExecutePlanRequest,
        text: str,
        settings: SessionSettings,
        tables: Sequence[TemporaryTable],
    ) -> str:
        names = PlanResolver(self._workspaces, tables, settings, texts=SqlTexts())

        async def get_resolver(texts: SqlTexts) -> PlanResolver:
            return replace(names, texts=texts)

        data = message.SerializeToString()
        texts = SqlTexts()
        await self._paths.check(data, [message.plan], len(data), texts)
        relation = find_statement(message.plan)
        sql = None if relation is None else find_sql(relation)
        recognition = None if sql is None else SqlRecognition(texts.of(sql.query), self._pools)
        if recognition is not None and await recognition.may_concern_tables():
            statement = await recognition.parse(settings.dialect)
            if isinstance(statement, StatementError):
                return f"error {statement}"
            if statement is not None:
                resolved = _resolved_query(names, statement, texts.of(text)) if text else ""
                return f"change {statement!r} {resolved}"
        request = read_request(data, "ExecutePlan")
        decoded = await self._decoder.decode(await self._decoder.read(request))
        resolver = await self._resolver.find_resolver(request, decoded, get_resolver)
        executed = request
        if resolver is not None and await self._resolver.resolve_names(decoded, resolver):
            executed = await self._resolver.plan_execution(request, decoded, resolver)
        analysis = base_pb2.AnalyzePlanRequest(session_id=_KEY.client_session_id)
        analysis.schema.plan.CopyFrom(message.plan)
        try:
            analysed = (await self._resolver.resolve_analysis(_KEY, analysis.SerializeToString(), get_resolver)).data
            shown = _show(base_pb2.AnalyzePlanRequest.FromString(analysed).schema.plan, message.plan)
        except GatewayError as error:
            shown = f"{error.condition} {error}"
        forwarded = base_pb2.ExecutePlanRequest.FromString(executed.data).plan
        return f"pass {_show(forwarded, message.plan)} analysis {shown}"


def _forms(text: str) -> Iterator[base_pb2.Plan]:
    """Yield the plans that contain a text as a command, and as the root."""
    command, root = base_pb2.Plan(), base_pb2.Plan()
    command.command.sql_command.input.sql.query = text
    root.root.sql.query = text
    yield command
    yield root


def _resolved_query(names: PlanResolver, statement: object, text: str) -> str:
    if not isinstance(statement, HasQuery):
        return ""
    plan = base_pb2.Plan()
    try:
        plan.root.sql.query = names.texts.of(extract_query(text, statement))
    except ValueError:  # it has no query
        return ""
    try:
        names.resolve(plan)
    except GatewayError as error:
        return f"{error.condition} {error}"
    return str(plan)


def _show(plan: base_pb2.Plan, before: base_pb2.Plan) -> str:
    return "unchanged" if plan == before else str(plan)
