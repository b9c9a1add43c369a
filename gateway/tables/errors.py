"""What is said when a statement may not do with a table what it asks for, in the seed's words where it has some.

Source: seed 001, 5.1.12 and 5.4; Drill's TestCTTAS for ``DROP VIEW``.
"""

from gateway.errors import GatewayError
from workspace.workspaces import Workspaces


def outside_of_temporary_workspace(workspaces: Workspaces) -> GatewayError:
    return GatewayError(
        "LODGE_NOT_TEMPORARY_WORKSPACE",
        "42602",
        "Temporary tables are not allowed to be created outside of default temporary workspace "
        f"[{workspaces.temporary.name}].",
    )


def immutable_schema(name: str) -> GatewayError:
    return GatewayError(
        "LODGE_IMMUTABLE_SCHEMA", "42501", f"Unable to create or drop tables/views. Schema [{name}] is immutable."
    )


def not_file_based(name: str) -> GatewayError:
    return GatewayError(
        "LODGE_NOT_FILE_BASED",
        "42809",
        f"Temporary workspace [{name}] must be file-based, instance of WorkspaceSchemaFactory.WorkspaceSchema.",
    )


def not_found(name: str) -> GatewayError:
    return GatewayError("TABLE_OR_VIEW_NOT_FOUND", "42P01", f"Table [{name}] is not found.")


def temporary_table_used(name: str) -> GatewayError:
    """A view, or whatever else outlives the session, over a temporary table."""
    return GatewayError(
        "LODGE_TEMPORARY_TABLE_USED",
        "42K0F",
        f"Temporary tables usage is disallowed. Used temporary table name: [{name}].",
    )


def not_a_view(name: str, operation: str) -> GatewayError:
    return GatewayError(
        "EXPECT_VIEW_NOT_TABLE",
        "42809",
        f"{operation} expects a view, but [{name}] is not a VIEW: it is a temporary table. Drop it with DROP TABLE.",
    )


def not_supported(name: str, operation: str, way_out: str) -> GatewayError:
    return GatewayError(
        "LODGE_TEMPORARY_TABLE_OPERATION",
        "0A000",
        f"Temporary table [{name}] does not support {operation}. {way_out}",
    )


def unreadable_name(operation: str) -> GatewayError:
    return GatewayError(
        "LODGE_IDENTIFIER",
        "42601",
        f"The table that IDENTIFIER(...) names in {operation} cannot be told. Give a text, or a parameter that is one.",
    )
