"""Answers a SQL command that is a query and reads the files of a temporary table directly.

Spark answers such a command with the relation that it received, and the client executes this relation. The relation
would contain the paths of the files. Therefore, Lodge lets Spark check the query, and answers with the query as the
client sent it.
"""

from functools import partial

from pyspark.sql.connect.proto import base_pb2, relations_pb2

from gateway.names.plan_resolver import PlanResolver
from gateway.operations.operations import Operation
from gateway.operations.responses import Response
from gateway.plans.sql_relations import find_statement
from gateway.sql.cursor import Cursor
from gateway.sql.read_only_query import is_read_only_query
from gateway.statements.routes import Change
from gateway.statements.session_view import SessionView
from gateway.statements.statement import Statement


async def copy_query(statement: Statement, resolver: PlanResolver) -> relations_pb2.Relation | None:
    """Return a copy of the query that a SQL command consists of. None for any other plan.

    Raises:
        GatewayError: If the text has too many tokens.
    """
    if statement.sql is None or not statement.plan.HasField("command"):
        return None
    cursor = Cursor(statement.texts.of(statement.sql.query), resolver.settings.dialect)
    if not await statement.run(is_read_only_query, cursor):
        return None
    query = relations_pb2.Relation()
    query.CopyFrom(statement.sql_relation)
    return query


def check_query(
    query: relations_pb2.Relation, statement: Statement, view: SessionView, resolver: PlanResolver
) -> Change:
    """Return the execution of a SQL command that is a query.

    Args:
        query: The query as the client sent it.
        statement: The command, in whose plan the names are resolved.
        view: The session of the client.
        resolver: Plans the scans of the query.
    """
    operation = Operation(view.request.with_operation_id())
    return Change(operation, partial(_check, query, statement.plan, view, resolver))


async def _check(
    query: relations_pb2.Relation, command: base_pb2.Plan, view: SessionView, resolver: PlanResolver
) -> Response:
    resolved = find_statement(command)
    if resolved is None:
        raise LookupError("The command is not a SQL text.")
    plan = base_pb2.Plan()
    plan.root.CopyFrom(resolved)
    await resolver.plan_scans(plan)
    await view.backend.analyze_schema(plan.root)
    return Response(sql_command_result=Response.SqlCommandResult(relation=query))
