"""A statement of a client, as all parts of the gateway read it.

Guarantee: the plan of a statement is decoded once. Its SQL text is divided into tokens and parsed only when a reader
asks for it, and at most once in each dialect (:mod:`gateway.sql.sql_texts`, :mod:`gateway.statements.recognition`).
"""

from collections.abc import Callable
from typing import TypeVar

from pyspark.sql.connect.proto import base_pb2, relations_pb2

from gateway.blocking_work.request_pools import RequestPools
from gateway.errors import ParseError
from gateway.messages.requests import Request
from gateway.plans.plan_decoding import DecodedPlan
from gateway.plans.sql_relations import find_sql, find_statement
from gateway.sql import statements
from gateway.sql.identifier_clauses import EvaluatedNames
from gateway.sql.lexer import Dialect
from gateway.sql.sql_texts import SqlTexts
from gateway.sql.statement_error import StatementError
from gateway.statements.recognition import SqlRecognition
from gateway.tables.data_frame_commands import concerns_tables

_Result = TypeVar("_Result")


class Statement:
    """An ``ExecutePlan`` request whose plan was decoded.

    Args:
        request: The request of the client.
        decoded: Its plan.
        pools: The threads that parse long texts.

    Attributes:
        request: The request of the client.
        decoded: Its plan.
        relation: The relation whose SQL text the plan executes. None if the plan does not consist of a SQL text.
        sql: The SQL text of the relation, and its parameters. None if there is none.
        recognition: What was parsed of the SQL text. None if there is none.
    """

    def __init__(self, request: Request, decoded: DecodedPlan, pools: RequestPools) -> None:
        self.request = request
        self.decoded = decoded
        self.relation = find_statement(decoded.plan)
        self.sql = None if self.relation is None else find_sql(self.relation)
        self.recognition = None if self.sql is None else SqlRecognition(self.texts.of(self.sql.query), pools)
        self._pools = pools

    async def run(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function that reads the SQL text, in a thread if the text is long.

        Raises:
            GatewayError: If the text has too many tokens.
        """
        length = 0 if self.sql is None else self.sql.ByteSize()
        return await self._pools.parse(length, function, *arguments)

    def replace_text(self, text: str) -> None:
        """Replace the SQL text, in the plan too."""
        if self.sql is None:
            raise LookupError("The statement is not a SQL text.")
        self.sql.query = text
        command = self.plan.command.sql_command
        if self.plan.HasField("command") and not command.HasField("input"):  # an older client, which sends no relation
            relation = self.sql_relation
            command.Clear()
            command.input.CopyFrom(relation)
            self.relation, self.sql = command.input, find_sql(command.input)
        self.recognition = SqlRecognition(self.texts.of(text), self._pools)

    @property
    def plan(self) -> base_pb2.Plan:
        """The plan, whose names the resolver replaces."""
        return self.decoded.plan

    @property
    def texts(self) -> SqlTexts:
        """The SQL texts of the plan."""
        return self.decoded.texts

    @property
    def sql_relation(self) -> relations_pb2.Relation:
        """The relation of a statement that is a SQL text."""
        if self.relation is None:
            raise LookupError("The statement is not a SQL text.")
        return self.relation

    @property
    def creates_view(self) -> bool:
        """Whether the plan is a command that creates a view of a DataFrame."""
        return self.plan.command.HasField("create_dataframe_view")

    async def may_change_tables(self) -> bool:
        """Return whether Lodge may execute the statement, in some session with some settings.

        Raises:
            GatewayError: If the text has too many tokens.
        """
        if self.recognition is not None:
            return await self.recognition.may_concern_tables()
        return concerns_tables(self.plan)

    async def parse(self, dialect: Dialect) -> statements.Statement | None:
        """Return the parsed SQL text.

        Returns:
            The statement. None if Spark executes the text, or the plan has none.

        Raises:
            GatewayError: If the text is malformed, or has too many tokens.
        """
        found = None if self.recognition is None else await self.recognition.parse(dialect)
        if isinstance(found, StatementError):
            raise ParseError(str(found)) from found
        return found

    async def evaluate_names(self, parsed: statements.Statement, dialect: Dialect) -> EvaluatedNames:
        """Return the names in the ``IDENTIFIER(…)`` clauses of the parsed SQL text.

        Raises:
            GatewayError: If the text has too many tokens.
        """
        if self.recognition is None or self.sql is None:
            return {}
        return await self.recognition.evaluate_names(parsed, self.sql, dialect)
