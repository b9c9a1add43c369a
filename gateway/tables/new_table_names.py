"""The names that a new temporary table can have [temporary-tables §5.4]."""

from gateway.names.targets import Target, TargetKind, schema_not_found
from gateway.sql.lexer import VARIABLE_START
from gateway.tables.statement_context import StatementContext
from gateway.tables.table_errors import not_file_based, outside_of_temporary_workspace, variable_in_name


async def new_table_name(context: StatementContext, target: Target) -> str:
    """Return the name of a new temporary table, without its workspace.

    Raises:
        GatewayError: If a temporary table cannot have this name [temporary-tables §5.4].
    """
    if target.kind not in {TargetKind.UNQUALIFIED, TargetKind.SESSION}:
        if target.kind is TargetKind.SPARK and await context.backend.database_exists(target.schema):
            raise not_file_based(target.schema)
        if target.workspace is None:
            raise schema_not_found(target.schema, context.workspaces)
        if target.workspace is not context.temporary_workspace:
            raise outside_of_temporary_workspace(context.workspaces)
    if VARIABLE_START in target.name:
        raise variable_in_name(target.name)
    return target.name
