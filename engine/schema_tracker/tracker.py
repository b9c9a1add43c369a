"""The schema tracker of a scan.

The tracker combines the columns that the query selects, the columns that are promised, and the columns that readers
produce. It follows [scan-schema-tracker]. Each scan has one tracker, and its readers run one after another. Each reader
goes through the following steps. A reader without an early schema skips the first step:

    tracker.apply_early_reader_schema(columns, context)      # before the reader reads
    loader = ResultSetLoader(tracker.projection_filter(context), ...)
    tracker.apply_reader_schema(batch_schema, context)       # after each batch
    missing = tracker.missing_columns(batch_schema)          # the columns that the scan must fill
    tracker.resolve_missing_cols(missing_with_types)
    tracker.output_schema()

Guarantees:

1. Once the schema is resolved, its columns are not removed or moved, and their names, types and modes do not change. If
   schema changes are allowed, columns and members of maps may be added. Otherwise, new columns are ignored, and one
   warning for each name is written to this module's log.
2. The version increases if, and only if, the output schema changes.
3. The first reader with a column determines the type of the column. Later types must be convertible to this type by the
   rules of :mod:`engine.schema_tracker.widening`. Otherwise an error is raised.
4. Columns outside a defined schema, and members outside its maps, are ignored. If the query selects all columns or all
   members, by a wildcard or by the whole map, one warning for each name is logged.
5. If a reader's column has the same name as an implicit column of this scan, the reader's column is ignored, and one
   warning is logged.

A tracker is not thread-safe, because a scan is a single task.
"""

import logging
from collections.abc import Iterable

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import NOWHERE, ProjectionError
from engine.projection.filter import ProjectionFilter
from engine.projection.path import ProjectedPath, quote_name
from engine.projection.project_list import EVERYTHING, ProjectionList, ProjectionType
from engine.schema import TupleSchema, fold_case
from engine.schema_tracker.column_filter import ColumnFilter
from engine.schema_tracker.initial_schema import (
    FindImplicitColumn,
    from_defined_schema,
    from_project_list,
    no_implicit_columns,
)
from engine.schema_tracker.live_filter import LiveFilter
from engine.schema_tracker.scan_schema import ScanSchema, find_missing

_log = logging.getLogger(__name__)


class ScanSchemaTracker:
    """Tracks the schema of one scan.

    Args:
        project_list: The columns that the query selects, either parsed or as strings.
        defined: The output schema, if the planner knows it. It either matches the project list, or contains all columns
            that the wildcard selects. Types may be LATE.
        provided: The types that the user declares. In combination with a defined schema, it only determines which
            columns were declared. For these columns, text may be converted to the declared type, and any type to
            text.
        is_strict: Whether the table has only the columns of the provided schema. Ignored without a provided schema.
        allows_schema_change: Whether readers after the first may add columns under a wildcard.
        find_implicit: Finds implicit columns, such as :func:`engine.scan.implicit_columns.implicit_field`.
        context: The context of errors that do not concern a specific reader.

    Raises:
        ProjectionError: If the project list is malformed, or does not match the schemas.
        SchemaConflictError: If an implicit column has another type in a schema.
    """

    def __init__(
        self,
        project_list: ProjectionList | Iterable[str],
        *,
        defined: TupleSchema | None = None,
        provided: TupleSchema | None = None,
        is_strict: bool = False,
        allows_schema_change: bool = False,
        find_implicit: FindImplicitColumn = no_implicit_columns,
        context: ErrorContext = NOWHERE,
    ) -> None:
        parsed = project_list if isinstance(project_list, ProjectionList) else ProjectionList.parse(project_list)
        declared = provided or TupleSchema()
        if defined is not None:
            self._schema = from_defined_schema(parsed, defined, find_implicit=find_implicit, context=context)
        else:
            is_strict = is_strict and provided is not None
            self._schema = from_project_list(
                parsed, declared, is_strict=is_strict, find_implicit=find_implicit, context=context
            )
        self._declared = declared
        self._project_list = parsed
        self._is_defined = defined is not None
        self._allows_schema_change = allows_schema_change
        self._context = context
        self._version = 1
        self._warned: set[str] = set()
        self._filter: tuple[ScanSchema, ErrorContext, ColumnFilter] | None = None

    def projection_type(self) -> ProjectionType:
        """Return the type of the projection for readers.

        ALL as long as readers may add columns, NONE if no column of the table is selected, and SOME otherwise.
        """
        wanted = self._schema.wanted.type
        return ProjectionType.SOME if wanted is ProjectionType.ALL and not self._may_grow else wanted

    def has_wildcard(self) -> bool:
        """Return whether the query has a wildcard to which partition columns can be added."""
        return not self._is_defined and self._project_list.type is ProjectionType.ALL

    def is_resolved(self) -> bool:
        """Return whether the output schema is complete.

        In a complete schema, each wildcard is expanded and no column is LATE.
        """
        return self._schema.is_resolved

    def schema_version(self) -> int:
        """Return the version of the output schema, starting at 1."""
        return self._version

    def output_schema(self) -> TupleSchema:
        """Return all columns of a batch, in order.

        Until the schema is resolved, columns may be missing or have LATE types.
        """
        return self._schema.output

    def reader_input_schema(self) -> TupleSchema:
        """Return all output columns except implicit columns."""
        return self._schema.reader_input

    def column_projection(self, name: str) -> ProjectedPath | None:
        """Return the part of a table column that the query selects. Return None if there is none."""
        if self._is_implicit(name):
            return None
        is_excluded = self.projection_type() is not ProjectionType.ALL and self._schema.output.find(name) is None
        return None if is_excluded else self._schema.wanted.find(name)

    def expand_implicit_col(self, field: pa.Field) -> None:
        """Add a partition column to a wildcard.

        If the query selects a column with the same name, that column takes precedence.

        Raises:
            ProjectionError: If the query has no wildcard.
        """
        if not self.has_wildcard():
            raise ProjectionError(
                f"{self._context}column {field.name!r} cannot be added, because the query has no wildcard."
            )
        if self._schema.output.find(field.name) is None:
            self._update(self._schema.with_partition(field))

    def apply_implicit_cols(self) -> TupleSchema:
        """Return the implicit columns, in the order of the output."""
        return self._schema.implicit

    def apply_early_reader_schema(self, schema: TupleSchema, context: ErrorContext | None = None) -> None:
        """Apply the complete schema that a reader knows before it reads.

        Columns that the scan does not need are ignored.

        Raises:
            SchemaConflictError: If a type or mode cannot be converted to the promised type or mode.
            ProjectionError: If the type of a column does not match the query.
        """
        wanted = (self.projection_filter(context or self._context).project(field).field for field in schema)
        self._update(self._schema.merge(TupleSchema(field for field in wanted if field is not None)))

    def projection_filter(self, context: ErrorContext) -> ProjectionFilter:
        """Return the filter for the loader of one reader.

        The filter always uses the current schema.
        """
        return LiveFilter(lambda: self._current_filter(context), lambda name: self._is_shadowed(name, context))

    def apply_reader_schema(self, schema: TupleSchema, context: ErrorContext) -> None:
        """Apply the schema of a batch that a reader produced.

        After the commit point, new columns under a wildcard are ignored. The loader may have added such columns with
        the row that overflowed the previous batch.

        Raises:
            SchemaConflictError: If a type or mode cannot be converted to the promised type or mode.
            ProjectionError: If the scan does not need a column, or the column is implicit.
        """
        current = self._current_filter(context)
        fields = []
        for field in schema:
            if self._is_implicit(field.name) or self._schema.wanted.find(field.name) is None:
                raise ProjectionError(
                    f"{context}the reader produced column {field.name!r}, but the scan does not need this column."
                )
            projected = current.project(field).field
            if projected is not None:
                fields.append(projected)
        self._update(self._schema.merge(TupleSchema(fields)))

    def missing_columns(self, schema: TupleSchema) -> TupleSchema:
        """Return the columns of the reader input schema that a batch does not contain.

        A LATE column of the batch counts as missing. If only members of a map are missing, the map is returned with
        only these members. The same applies to arrays of maps.
        """
        fields = (find_missing(field, schema.find(field.name)) for field in self._schema.reader_input)
        return TupleSchema(field for field in fields if field is not None)

    def resolve_missing_cols(self, missing: TupleSchema) -> None:
        """Set the types of columns for which no reader has provided a type.

        Args:
            missing: Columns of the reader input schema, such as the result of :meth:`missing_columns`. Each LATE type
                is replaced. See :func:`engine.arrow_types.resolve_late`.

        Raises:
            SchemaConflictError: If a column already has another type.
            ProjectionError: If the scan does not have the column.
        """
        known = self._schema.reader_input
        resolved = ColumnFilter(known, EVERYTHING, TupleSchema(), lambda _: False, self._context)
        fields = [resolved.project(field).field for field in missing]
        strangers = [field.name for field, found in zip(missing, fields, strict=True) if found is None]
        if strangers:
            raise ProjectionError(
                f"{self._context}column {strangers[0]!r} cannot be missing, because the scan does not have this column."
            )
        self._update(self._schema.resolve(TupleSchema(fields)))

    @property
    def _may_grow(self) -> bool:
        return self._allows_schema_change or not self._schema.is_resolved

    def _update(self, schema: ScanSchema) -> None:
        if schema.output != self._schema.output:
            self._version += 1
        self._schema = schema

    def _current_filter(self, context: ErrorContext) -> ColumnFilter:
        schema = self._schema
        if self._filter is None or self._filter[0] is not schema or self._filter[1] != context:
            # A defined schema contains all selected columns. The query's own list also matches other columns, so that a
            # warning is logged for them.
            wanted = self._project_list if self._is_defined else schema.wanted
            current = ColumnFilter(
                schema.reader_input, wanted, self._declared, lambda path: self._admit(path, context), context
            )
            self._filter = schema, context, current
        return self._filter[2]

    def _admit(self, path: str, context: ErrorContext) -> bool:
        may_join = self._may_grow and not self._is_defined
        if not may_join:
            self._warn(
                path, f"{context}column {path!r} is ignored, because the schema of the scan was already complete."
            )
        return may_join

    def _is_implicit(self, name: str) -> bool:
        return self._schema.implicit.find(name) is not None

    def _is_shadowed(self, name: str, context: ErrorContext) -> bool:
        if self._is_implicit(name):
            self._warn(
                quote_name(name), f"{context}column {name!r} is ignored, because an implicit column has the same name."
            )
            return True
        return False

    def _warn(self, path: str, message: str) -> None:
        if fold_case(path) not in self._warned:
            self._warned.add(fold_case(path))
            _log.warning("%s", message)
