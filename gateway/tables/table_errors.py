"""Errors of statements that concern tables.

The error messages from [temporary-tables §5.1.12] and [temporary-tables §5.4] are used verbatim.

Source: also [drill-tests TestCTTAS] for ``DROP VIEW``.
"""

from collections.abc import Mapping

from gateway.errors import GatewayError, SparkError, relation_name
from gateway.sql.name_syntax import quote_name
from workspace.workspaces import Workspaces


class AlreadyExistsError(SparkError):
    """The error for a new table whose name is already used by a table or view."""

    def __init__(self, name: str, schema: str) -> None:
        text = f"A table or view with given name [{name}] already exists in schema [{schema}]."
        super().__init__("TABLE_OR_VIEW_ALREADY_EXISTS", text, relationName=relation_name([*schema.split("."), name]))


class StatementStartedError(Exception):
    """A statement that began before under the same operation id, usually at another replica."""


class ChangeTakenError(Exception):
    """A change that another replica took over, completed or undid."""


def table_changed(reason: str) -> GatewayError:
    """Return the error for a statement that another statement has overtaken.

    Args:
        reason: What the other statement does, as a sentence.
    """
    text = f"{reason} Nothing was changed. Run the statement again."
    return GatewayError("LODGE_TABLE_CHANGED", "40001", text)


def cannot_analyze(name: str) -> GatewayError:
    """Return the error for an insertion that Spark could not analyze at first, but could execute."""
    return table_changed(
        f"Spark could not analyze the insertion into temporary table [{name}], perhaps because another statement was "
        "replacing what it reads."
    )


def created_concurrently(name: str) -> GatewayError:
    """Return the error for the replacement of a table that another statement creates or drops."""
    return table_changed(f"Another statement creates or drops temporary table [{name}].")


def outside_of_temporary_workspace(workspaces: Workspaces) -> GatewayError:
    """Return the error for a temporary table outside the default temporary workspace."""
    return GatewayError(
        "LODGE_NOT_TEMPORARY_WORKSPACE",
        "42602",
        "Temporary tables are not allowed to be created outside of default temporary workspace "
        f"[{workspaces.temporary.name}].",
    )


def immutable_schema(name: str) -> GatewayError:
    """Return the error for a change in a workspace that is not writable."""
    return GatewayError(
        "LODGE_IMMUTABLE_SCHEMA", "42501", f"Unable to create or drop tables/views. Schema [{name}] is immutable."
    )


def not_file_based(name: str) -> GatewayError:
    """Return the error for creating a temporary table in a Spark schema."""
    return GatewayError(
        "LODGE_NOT_FILE_BASED",
        "42809",
        f"Temporary workspace [{name}] must be file-based, instance of WorkspaceSchemaFactory.WorkspaceSchema.",
    )


def temporary_table_used(name: str) -> GatewayError:
    """Return the error for a permanent or global view that reads a temporary table."""
    return GatewayError(
        "LODGE_TEMPORARY_TABLE_USED",
        "42K0F",
        f"Temporary tables usage is disallowed. Used temporary table name: [{name}].",
    )


def not_a_view(name: str, operation: str) -> GatewayError:
    """Return the error for a view operation whose target is a temporary table."""
    return SparkError(
        "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE",
        f"{operation} expects a view, but [{name}] is not a VIEW: it is a temporary table. Use DROP TABLE.",
        tableName=quote_name(name),
        operation=operation,
    )


def not_supported(name: str, operation: str, way_out: str) -> GatewayError:
    """Return the error for an operation that temporary tables do not support."""
    return GatewayError(
        "LODGE_TEMPORARY_TABLE_OPERATION", "0A000", f"Temporary table [{name}] does not support {operation}. {way_out}"
    )


def inexact_rewriting(name: str, statement: str, setting: str) -> GatewayError:
    """Return the error for a statement that would change dates and times in rows that it does not concern."""
    return not_supported(
        name,
        f"{statement} while Spark would change dates and times in other rows because of the setting [{setting}]",
        "Set it to its default value, and run the statement again.",
    )


def no_enforcement(name: str) -> GatewayError:
    """Return the error for a column with ``NOT NULL`` in a session in which Spark would refuse NULL."""
    return not_supported(
        name,
        "NOT NULL while [spark.sql.fileSource.insert.enforceNotNull] is true, because Lodge does not refuse NULL",
        "Remove NOT NULL, or set the setting to false.",
    )


def ambiguous_constants(name: str) -> GatewayError:
    """Return the error for ``PARTITION`` with constants that settings of Spark turn into other texts."""
    return not_supported(
        name,
        "INSERT OVERWRITE with constants in PARTITION that are not in quotes, while "
        "[spark.sql.legacy.keepPartitionSpecAsStringLiteral] or "
        "[spark.sql.legacy.parseNullPartitionSpecAsStringLiteral] is true",
        "Write the constants in quotes, or set both settings to false.",
    )


def empty_partition_value(spec: str) -> GatewayError:
    """Return the error for a ``PARTITION`` clause with an empty text, which cannot be told from NULL in a directory."""
    details = f"The spec ([{spec}]) contains an empty partition column value"
    return SparkError("INVALID_PARTITION_SPEC", f"Partition spec is invalid. {details}.", details=details)


def variable_in_name(name: str) -> GatewayError:
    """Return the error for a new table whose name contains a variable, which Spark would replace."""
    return GatewayError(
        "LODGE_VARIABLE_SUBSTITUTION",
        "0A000",
        f"The name of the temporary table [{name}] contains a variable. Spark would replace the variable wherever the "
        "name is used, and would not find the table. Write the name without variables.",
    )


def too_many_insert_clauses(limit: int) -> GatewayError:
    """Return the error for a statement with too many ``INSERT`` clauses in a session with temporary tables."""
    return GatewayError(
        "LODGE_TEMPORARY_TABLE_OPERATION",
        "0A000",
        f"A session with temporary tables does not support more than {limit:,} INSERT clauses in one statement. Use "
        "several statements.",
    )


def column_already_exists(name: str) -> GatewayError:
    """Return the error for a table with two columns of the same name."""
    return SparkError(
        "COLUMN_ALREADY_EXISTS",
        f"The column {quote_name(name)} already exists. Choose another name or rename the existing column.",
        columnName=quote_name(name),
    )


def unreadable_name(operation: str) -> GatewayError:
    """Return the error for a table name that only Spark can compute."""
    return GatewayError(
        "LODGE_IDENTIFIER",
        "42601",
        f"Lodge cannot compute the table name in IDENTIFIER(...) of {operation}. Use a string literal or a string "
        "parameter as the argument.",
    )


def not_partitioned(table: str) -> GatewayError:
    """Return the error for the partitions of a table that has none."""
    name = quote_name(table)
    return SparkError(
        "INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY",
        f"The partition command is invalid. Table {name} is not partitioned.",
        name=name,
    )


def type_changed(table: str, column: str, old: str, new: str) -> GatewayError:
    """Return the error for another type of a column."""
    name = quote_name(column)
    old_type, new_type = (f'"{each.upper()}"' for each in (old, new))
    return SparkError(
        "NOT_SUPPORTED_CHANGE_COLUMN",
        f"ALTER TABLE ALTER/CHANGE COLUMN is not supported for changing {quote_name(table)}'s column {name} with type "
        f"{old_type} to {name} with type {new_type}. Create the table again with CREATE OR REPLACE TEMPORARY TABLE.",
        table=quote_name(table),
        originName=name,
        originType=old_type,
        newName=name,
        newType=new_type,
    )


def partition_column_altered(table: str, column: str) -> GatewayError:
    """Return the error for another type of a partition column."""
    return SparkError(
        "CANNOT_ALTER_PARTITION_COLUMN",
        f"ALTER TABLE (ALTER|CHANGE) COLUMN is not supported for partition columns, but found the partition column "
        f"{quote_name(column)} in the table {quote_name(table)}.",
        tableName=quote_name(table),
        columnName=quote_name(column),
    )


def merge_subquery(name: str, condition: str) -> GatewayError:
    """Return the error for a condition of ``MERGE`` with a subquery, which Spark does not allow."""
    text = f'"{condition}"'
    return SparkError(
        "UNSUPPORTED_MERGE_CONDITION.SUBQUERY",
        f"MERGE operation contains unsupported {name} condition. Subqueries are not allowed: {text}.",
        condName=name,
        cond=text,
    )


def value_too_large(parameters: Mapping[str, str]) -> GatewayError:
    """Return the error for a new value that is too large for its column, with Spark's text."""
    text = (
        "Fail to assign a value of {sourceType} type to the {targetType} type column or variable {columnName} due to "
        "an overflow. Use `try_cast` on the input value to tolerate overflow and return NULL instead."
    )
    return SparkError(
        "CAST_OVERFLOW_IN_TABLE_INSERT",
        text.format_map(parameters),
        sourceType=parameters["sourceType"],
        targetType=parameters["targetType"],
        columnName=parameters["columnName"],
    )


def several_rows_match() -> GatewayError:
    """Return the error for a row that matches several rows of the source of ``MERGE``, with Spark's text."""
    return SparkError(
        "MERGE_CARDINALITY_VIOLATION",
        "The ON search condition of the MERGE statement matched a single row from the target table with multiple rows "
        "of the source table. This could result in the target row being operated on more than once with an update or "
        "delete operation and is not allowed.",
    )


_DEFINITIONS = {
    "GENERATED": "generated columns",
    "DEFAULT": "two default values of a column",
    "PARTITION": "a default value, CHAR or VARCHAR of a partition column",
}


def unsupported_definition(table: str, clause: str) -> GatewayError:
    """Return the error for a clause in a column definition that tables in files do not support."""
    operation = _DEFINITIONS.get(clause, "CONSTRAINT")
    way_out = "Insert the value with the rows." if clause == "GENERATED" else "Remove it."
    return SparkError(
        "UNSUPPORTED_FEATURE.TABLE_OPERATION",
        f"The feature is not supported: Table {quote_name(table)} does not support {operation}. {way_out}",
        tableName=quote_name(table),
        operation=operation,
    )


def unsupported_creation(workspace: str) -> GatewayError:
    """Return the error for an unsupported form of ``CREATE TABLE`` in a workspace."""
    return GatewayError(
        "LODGE_WORKSPACE_TABLE",
        "0A000",
        f"This CREATE TABLE is not supported in workspace [{workspace}]. Use CREATE TABLE name [(columns)] [USING "
        "format] [PARTITION BY (columns)] [OPTIONS (...)] AS query.",
    )


def no_data_frame_table(workspace: str) -> GatewayError:
    """Return the error for saving a DataFrame as a table in a workspace."""
    return GatewayError(
        "LODGE_WORKSPACE_TABLE",
        "0A000",
        f"The DataFrame API cannot create or fill a table in workspace [{workspace}]. Use the SQL statement CREATE "
        "TABLE name AS query.",
    )


def no_tables_in_object_store(table: str, workspace: str) -> GatewayError:
    """Return the error for a permanent table when a workspace is in an object store."""
    return GatewayError(
        "LODGE_WORKSPACE_TABLE",
        "0A000",
        f"Table [{table}] cannot be created, because workspace [{workspace}] is in an object store. Object stores "
        "support only temporary tables. Use CREATE TEMPORARY TABLE, or write the table with Spark.",
    )


def no_change_in_workspace(name: str, operation: str) -> GatewayError:
    """Return the error for changing an object that is not a temporary table."""
    return GatewayError(
        "LODGE_WORKSPACE_TABLE",
        "0A000",
        f"{operation} cannot change [{name}], because only temporary tables and Spark tables can be changed. Create a "
        "new table with the changed rows.",
    )


def no_view_in_workspace(workspace: str) -> GatewayError:
    """Return the error for ``CREATE VIEW`` in a workspace."""
    return GatewayError(
        "LODGE_VIEW_IN_WORKSPACE",
        "0A000",
        f"Workspace [{workspace}] cannot contain views. Create a temporary view, or a view in a schema of Spark.",
    )


def view_not_checked() -> GatewayError:
    """Return the error for a view whose plan is truncated and cannot be checked."""
    return GatewayError(
        "LODGE_VIEW_NOT_CHECKED",
        "0A000",
        "Lodge cannot check whether this view reads a temporary table, because Spark cuts off long plans. Set "
        "spark.sql.maxPlanStringLength to its default, or create the view before the session has temporary tables.",
    )


def statement_failed(table: str) -> GatewayError:
    """Return the error for a statement that failed with an internal error."""
    return GatewayError(
        "LODGE_STATEMENT_FAILED",
        "58000",
        f"The statement on temporary table [{table}] failed. See the gateway log for the reason.",
    )


def rows_differ(table: str, *, reported: int, stored: int) -> GatewayError:
    """Return the error for a write whose files do not contain the written rows."""
    return GatewayError(
        "LODGE_ROWS_DIFFER",
        "58030",
        f"The backend wrote {reported:,} rows for table [{table}], but its files contain {stored:,} rows. The "
        "statement has been undone. Perhaps a host of the backend had no access to the shared storage during the "
        "statement: check that all hosts mount the storage, and run the statement again. Or Spark cannot read what it "
        "wrote: it ignores empty lines of CSV files, and partitions whose columns begin with [.] or whose values end "
        "with [._COPYING_]. In this case, store the table as [parquet], or change these columns or values.",
    )


def statement_lost() -> GatewayError:
    """Return the error for a statement that was undone because its gateway or its result was lost."""
    return GatewayError(
        "LODGE_STATEMENT_LOST",
        "58000",
        "The statement was undone, because the gateway that ran it, or its result at the backend, was lost. Run the "
        "statement again.",
    )


def statement_unfinished(table: str) -> GatewayError:
    """Return the error for a statement that Lodge could neither complete nor undo yet."""
    return GatewayError(
        "LODGE_STATEMENT_UNFINISHED",
        "58000",
        f"Lodge could neither complete nor undo the statement on temporary table [{table}] yet. It completes the "
        "statement if the table shows its result, and undoes it otherwise. Check the table before you run the "
        "statement again.",
    )


def permanent_table_unknown() -> GatewayError:
    """Return the error for the creation of a permanent table whose gateway was lost in its last step."""
    return GatewayError(
        "LODGE_STATEMENT_UNFINISHED",
        "58000",
        "The gateway that created the permanent table was lost in the last step, so Lodge does not know whether the "
        "table exists. Check the table before you run the statement again.",
    )
