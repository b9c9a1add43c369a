"""Calls that Lodge makes at the backend in the session of a client.

Lodge executes a Lodge statement with such calls. The calls have the user context and the metadata of the client's
request. :mod:`gateway.backends.backend_operations` has the guarantees of operations, and
:mod:`gateway.backends.session_channel` that of all other calls.
"""

import asyncio
import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from google.rpc import error_details_pb2
from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.types import StructType

from gateway.backends.backend_operations import BackendOperations
from gateway.backends.backend_rows import (
    MAX_ROW_BYTES,
    BackendRowsError,
    Kind,
    RowReader,
    is_boolean,
    is_integer,
    is_text,
)
from gateway.backends.backends import Backend
from gateway.backends.schema_answers import read_schema
from gateway.backends.session_channel import SessionChannel
from gateway.backends.session_settings import SETTING_DEFAULTS, SessionSettings
from gateway.blocking_work.request_pools import INLINE_BYTES
from gateway.errors import BackendError, long_settings
from gateway.messages.error_status import Metadata, condition_of, info_of, session_gone_condition
from gateway.messages.statement_request import StatementRequest

_MAX_SETTINGS_BYTES = 65_536
_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_UNRESOLVED_COLUMN = "UNRESOLVED_COLUMN"
_KNOWN_ARTIFACT = "ARTIFACT_ALREADY_EXISTS"
_ARTIFACT_CHUNK_BYTES = 32 * 1024
_CANNOT_EXPLAIN = "Error occurred during query planning"


class BackendSession:
    """The session of a client at its backend.

    Args:
        backend: The backend of the session.
        request: The statement of the client for which the calls are made.
        metadata: The metadata of the client's request.

    Attributes:
        operations: Executes and follows operations.
    """

    def __init__(self, backend: Backend, request: StatementRequest, metadata: Metadata) -> None:
        self._channel = SessionChannel(backend, request, metadata)
        self.operations = BackendOperations(self._channel)

    @property
    def address(self) -> str:
        """The address of the backend."""
        return self._channel.backend.address

    @property
    def server_side_session_id(self) -> str:
        """The session id that the backend generated. Empty before the first response."""
        return self._channel.server_side_session_id

    async def analyze_schema(self, relation: relations_pb2.Relation) -> StructType:
        """Return the schema of a relation.

        Raises:
            BackendError: If Spark rejects the relation.
            GatewayError: If the schema contains a user-defined type, or the answer is not what it should be.
        """
        request = self._analysis()
        request.schema.plan.root.CopyFrom(relation)
        found = (await self._analyze(request)).schema.schema
        if found.ByteSize() <= INLINE_BYTES:
            return read_schema(found, self.address)
        return await asyncio.to_thread(read_schema, found, self.address)

    async def parse_schema(self, ddl: str) -> StructType:
        """Return the columns of a definition in DDL format. They can have the types ``CHAR`` and ``VARCHAR``.

        Raises:
            BackendError: If Spark cannot parse the definition.
            GatewayError: If the answer is not what it should be.
        """
        request = self._analysis()
        request.ddl_parse.ddl_string = ddl
        return read_schema((await self._analyze(request)).ddl_parse.parsed, self.address)

    async def explain(self, relation: relations_pb2.Relation) -> str:
        """Return all plans of a relation in the format of ``EXPLAIN EXTENDED``.

        Raises:
            BackendError: If the call fails.
        """
        request = self._analysis()
        request.explain.plan.root.CopyFrom(relation)
        request.explain.explain_mode = base_pb2.AnalyzePlanRequest.Explain.EXPLAIN_MODE_EXTENDED
        return (await self._analyze(request)).explain.explain_string

    async def can_explain(self, statement: relations_pb2.Relation) -> bool:
        """Return whether Spark can analyze and plan a SQL statement. Spark does not execute it.

        Args:
            statement: The statement. All names in it are resolved.

        Raises:
            BackendError: If Spark cannot parse the statement.
            GatewayError: If the backend answers something else.
        """
        plan = base_pb2.Plan()
        first = plan.root.project
        first.expressions.add().expression_string.expression = f"left(plan, {len(_CANNOT_EXPLAIN)}) AS plan"
        first.input.limit.limit = 1
        explanation = first.input.limit.input
        explanation.CopyFrom(statement)
        sql = explanation.with_relations.root.sql if explanation.HasField("with_relations") else explanation.sql
        sql.query = f"EXPLAIN {sql.query}"
        return await self.read_texts(plan, ["plan"]) != [_CANNOT_EXPLAIN]

    async def list_input_files(self, relation: relations_pb2.Relation) -> Sequence[str]:
        """Return the URIs of the files that a relation reads.

        Raises:
            BackendError: If the call fails.
        """
        request = self._analysis()
        request.input_files.plan.root.CopyFrom(relation)
        return (await self._analyze(request)).input_files.files

    async def table_exists(self, unparsed_identifier: str) -> bool:
        """Return whether Spark has a table or view with the given name.

        A table whose files are broken exists too, and so does a view that reads a table that no longer exists.

        Args:
            unparsed_identifier: The name.

        Raises:
            BackendError: If the backend cannot answer.
        """
        request = self._analysis()
        request.schema.plan.root.read.named_table.unparsed_identifier = unparsed_identifier
        try:
            await self._analyze(request)
        except BackendError as error:
            info = info_of(error.error)
            if info is None or session_gone_condition(error):
                raise
            if info.metadata.get("errorClass") == _NOT_FOUND:
                return _plain(_parameter(info, "relationName")) not in {"", _plain(unparsed_identifier)}
        return True

    async def is_column_missing(self, query: relations_pb2.Relation, name: str) -> bool:
        """Return whether Spark cannot analyze a query because it does not find a column.

        Args:
            query: The query.
            name: The name of the column, in lower case. Fields of the column and names with a table count too.

        Raises:
            GatewayError: If the answer is not what it should be.
        """
        try:
            await self.analyze_schema(query)
        except BackendError as error:
            info = info_of(error.error)
            return (
                info is not None
                and info.metadata.get("errorClass", "").startswith(_UNRESOLVED_COLUMN)
                and f".{name}." in f".{_plain(_parameter(info, 'objectName'))}."
            )
        return False

    async def database_exists(self, name: str) -> bool:
        """Return whether a database exists in Spark. False if the call fails."""
        plan = base_pb2.Plan()
        plan.root.catalog.database_exists.db_name = name
        try:
            answers = await self._read_row(plan, {"exists": is_boolean})
        except (BackendError, BackendRowsError):
            return False
        return any(answer["exists"] for answer in answers)

    async def read_count(self, plan: base_pb2.Plan) -> int:
        """Execute a query that returns one row with a number, and return the number.

        Raises:
            BackendError: If the query fails.
            GatewayError: If the backend answers something else.
        """
        try:
            answers = await self._read_row(plan, {"count": is_integer})
        except BackendRowsError as error:
            raise self._channel.failed(str(error)) from error
        if len(answers) != 1 or answers[0]["count"] is None:
            raise self._channel.failed(f"{len(answers)} counts instead of one")
        return int(answers[0]["count"])

    async def read_texts(self, plan: base_pb2.Plan, columns: Sequence[str]) -> Sequence[str | None]:
        """Execute a query that returns one row of texts, and return the texts.

        Args:
            plan: The query.
            columns: The names of its columns.

        Raises:
            BackendError: If the query fails.
            GatewayError: If the backend answers something else.
        """
        rows = await self.read_text_rows(plan, columns, max_rows=1)
        if len(rows) != 1:
            raise self._channel.failed(f"{len(rows)} rows instead of one")
        return rows[0]

    async def read_text_rows(
        self, plan: base_pb2.Plan, columns: Sequence[str], *, max_rows: int
    ) -> Sequence[Sequence[str | None]]:
        """Execute a query that returns rows of texts, and return them.

        Args:
            plan: The query.
            columns: The names of its columns.
            max_rows: The maximum number of rows.

        Raises:
            BackendError: If the query fails.
            GatewayError: If the backend answers something else, or more rows.
        """
        try:
            answers = await self._read_rows(plan, dict.fromkeys(columns, is_text), max_rows=max_rows)
        except BackendRowsError as error:
            raise self._channel.failed(str(error)) from error
        return [[row[column] for column in columns] for row in answers]

    async def _read_row(self, plan: base_pb2.Plan, columns: Mapping[str, Kind]) -> Sequence[Mapping[str, Any]]:
        """Execute a query, and return its rows, at most one."""
        return await self._read_rows(plan, columns, max_rows=1)

    async def _read_rows(
        self, plan: base_pb2.Plan, columns: Mapping[str, Kind], *, max_rows: int
    ) -> Sequence[Mapping[str, Any]]:
        answers: list[Mapping[str, Any]] = []
        reader = RowReader(columns, max_rows=max_rows, max_bytes=MAX_ROW_BYTES * max_rows)

        async def take(rows: bytes) -> None:
            answers.extend(reader.read(rows))

        await self.operations.execute(plan, on_rows=take)
        return answers

    async def execute_sql(self, relation: relations_pb2.Relation) -> base_pb2.ExecutePlanResponse:
        """Execute a SQL command and return the response from Spark.

        Raises:
            BackendError: If the command fails.
        """
        plan = base_pb2.Plan()
        plan.command.sql_command.input.CopyFrom(relation)
        return (await self.operations.execute(plan)).answer

    async def register_data_source(self, name: str, command: bytes, python_version: str) -> None:
        """Register a data source in the session.

        Args:
            name: The name of the data source.
            command: The pickled class of the data source.
            python_version: The Python version that the backend must have to load the class, such as ``3.11``.

        Raises:
            BackendError: If the call fails.
        """
        plan = base_pb2.Plan()
        source = plan.command.register_data_source
        source.name = name
        source.python_data_source.command = command
        source.python_data_source.python_ver = python_version
        await self.operations.execute(plan)

    async def add_artifact(self, name: str, data: bytes) -> None:
        """Add an artifact to the session. Do nothing if the session has an artifact with this name.

        Raises:
            BackendError: If the call fails.
        """
        chunks = [data[start : start + _ARTIFACT_CHUNK_BYTES] for start in range(0, len(data), _ARTIFACT_CHUNK_BYTES)]
        requests = [self._channel.build(base_pb2.AddArtifactsRequest) for _ in chunks]
        if len(chunks) == 1:  # Spark refuses a single chunk
            artifact = requests[0].batch.artifacts.add(name=name)
            artifact.data.data, artifact.data.crc = data, zlib.crc32(data)
        else:
            for request, chunk in zip(requests, chunks, strict=True):
                part = request.chunk if request is not requests[0] else request.begin_chunk.initial_chunk
                part.data, part.crc = chunk, zlib.crc32(chunk)
            first = requests[0].begin_chunk
            first.name, first.total_bytes, first.num_chunks = name, len(data), len(chunks)
        encoded = [request.SerializeToString() for request in requests]
        try:
            await self._channel.call_with_stream("AddArtifacts", encoded)
        except BackendError as error:
            if condition_of(error.error) != _KNOWN_ARTIFACT:
                raise

    async def drop_temp_view(self, name: str) -> None:
        """Drop a temporary view if it exists.

        Raises:
            BackendError: If the call fails.
        """
        plan = base_pb2.Plan()
        plan.root.catalog.drop_temp_view.view_name = name
        await self.operations.execute(plan)

    async def read_settings(self) -> SessionSettings:
        """Return the session settings that change how Lodge interprets statements.

        Raises:
            BackendError: If the call fails, or the session at the backend is not the session that the client observed.
            GatewayError: If the answer is not what it should be.
        """
        request = self._channel.build_for_observed_session(base_pb2.ConfigRequest)
        for key, default in SETTING_DEFAULTS.items():
            pair = request.operation.get_with_default.pairs.add()
            pair.key, pair.value = key, default
        answer = await self._channel.call("Config", request)
        if len(answer) > _MAX_SETTINGS_BYTES:
            raise long_settings(SETTING_DEFAULTS, _MAX_SETTINGS_BYTES)
        response = await self._channel.decode(base_pb2.ConfigResponse, answer)
        self._channel.note_session(response.server_side_session_id)
        values = {pair.key: pair.value for pair in response.pairs}
        if not values.keys() >= SETTING_DEFAULTS.keys():
            raise self._channel.failed("its answer lacks settings of the session")
        return SessionSettings.from_values(values)

    def _analysis(self) -> base_pb2.AnalyzePlanRequest:
        return self._channel.build(base_pb2.AnalyzePlanRequest, client_type=self._channel.request.client_type)

    async def _analyze(self, request: base_pb2.AnalyzePlanRequest) -> base_pb2.AnalyzePlanResponse:
        response = await self._channel.decode(
            base_pb2.AnalyzePlanResponse, await self._channel.call("AnalyzePlan", request)
        )
        self._channel.note_session(response.server_side_session_id)
        return response


def _parameter(info: error_details_pb2.ErrorInfo, name: str) -> str:
    """Return a parameter of the message of an error. Empty if it is not known."""
    with suppress(ValueError, AttributeError):
        return str(json.loads(info.metadata.get("messageParameters", "")).get(name, ""))
    return ""


def _plain(name: str) -> str:
    return name.replace("`", "").lower()
