"""The schema tracker of a scan.

It tracks what the query wants, what is promised, and what readers produce.

It follows [scan-schema-tracker]. One tracker serves one scan, and the readers follow one another. Each reader goes
through these steps; a reader without an early schema leaves out the first:

    tracker.apply_early_reader_schema(columns, context)      # before the reader reads
    loader = ResultSetLoader(tracker.projection_filter(context), ...)
    tracker.apply_reader_schema(batch_schema, context)       # after each batch
    missing = tracker.missing_columns(batch_schema)          # which the scan must fill
    tracker.resolve_missing_cols(missing_with_types)
    tracker.output_schema()

Guarantees:

1. Once the schema is resolved, no column goes, moves, or changes its name, type or mode. If schema changes are
   allowed, columns and members of maps may be added. If not, later ones are left out, with one warning for each name
   in this module's log.
2. The version grows if, and only if, the output schema changes.
3. The first reader with a column decides its type. A later type must become that one, by the rules of
   :mod:`engine.schema_tracker.widening`, or is an error.
4. Columns outside a defined schema, and members outside its maps, are left out. If the query selects everything, by a
   wildcard or by the whole map, each name gets one warning.
5. A reader's column with the name of an implicit column of this scan is left out, with one warning.

A tracker is not thread-safe, because a scan is one task.
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
    """The tracker of one scan.

    Args:
        project_list: The columns that the query selects, parsed or as elements.
        defined: The output schema, if the planner knows it. It equals the project list, or has all columns that the
            wildcard stands for. Types may be LATE.
        provided: The types that a user declares. With a defined schema it only says which columns were declared, so
            that text may become their type, and any type text.
        is_strict: Whether no other columns than the provided ones exist. Without a provided schema it has no effect.
        allows_schema_change: Whether readers after the first may add columns under a wildcard.
        find_implicit: Finds implicit columns, such as :func:`engine.scan.implicit_columns.implicit_field`.
        context: The scan, for errors that concern no reader.

    Raises:
        ProjectionError: If the project list is malformed, or does not suit the schemas.
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
        """Return what kind of projection readers get.

        ALL while they may add columns, NONE if no column is the table's, else SOME.
        """
        wanted = self._schema.wanted.type
        return ProjectionType.SOME if wanted is ProjectionType.ALL and not self._may_grow else wanted

    def has_wildcard(self) -> bool:
        """Return whether the query has a wildcard, which partition columns expand."""
        return not self._is_defined and self._project_list.type is ProjectionType.ALL

    def is_resolved(self) -> bool:
        """Return whether the output schema is complete.

        Each wildcard is expanded then, and no column is LATE.
        """
        return self._schema.is_resolved

    def schema_version(self) -> int:
        """Return the version of the output schema, starting at 1."""
        return self._version

    def output_schema(self) -> TupleSchema:
        """Return all columns of a batch, in order.

        Until it is resolved, it may have LATE types and lack columns.
        """
        return self._schema.output

    def reader_input_schema(self) -> TupleSchema:
        """Return all output columns except implicit ones."""
        return self._schema.reader_input

    def column_projection(self, name: str) -> ProjectedPath | None:
        """Return what the query selects of a column of the table. None if nothing."""
        if self._is_implicit(name):
            return None
        is_excluded = self.projection_type() is not ProjectionType.ALL and self._schema.output.find(name) is None
        return None if is_excluded else self._schema.wanted.find(name)

    def expand_implicit_col(self, field: pa.Field) -> None:
        """Add a partition column to a wildcard.

        A column of that name in the query takes precedence.

        Raises:
            ProjectionError: If the query has no wildcard.
        """
        if not self.has_wildcard():
            raise ProjectionError(f"{self._context}column {field.name!r} cannot be added: the query has no wildcard.")
        if self._schema.output.find(field.name) is None:
            self._update(self._schema.with_partition(field))

    def apply_implicit_cols(self) -> TupleSchema:
        """Return the implicit columns, in the order of the output."""
        return self._schema.implicit

    def apply_early_reader_schema(self, schema: TupleSchema, context: ErrorContext | None = None) -> None:
        """Apply the complete schema that a reader knows before it reads.

        Unwanted columns are left out.

        Raises:
            SchemaConflictError: If a type or mode cannot become the promised one.
            ProjectionError: If the type of a column does not suit the query.
        """
        wanted = (self.projection_filter(context or self._context).project(field).field for field in schema)
        self._update(self._schema.merge(TupleSchema(field for field in wanted if field is not None)))

    def projection_filter(self, context: ErrorContext) -> ProjectionFilter:
        """Return the filter for the loader of one reader.

        It always uses the current schema.
        """
        return LiveFilter(lambda: self._current_filter(context), lambda name: self._is_shadowed(name, context))

    def apply_reader_schema(self, schema: TupleSchema, context: ErrorContext) -> None:
        """Apply the schema of a batch that a reader produced.

        New columns under a wildcard are left out after the commit point. The loader may have added them with the row
        that overflowed the previous batch.

        Raises:
            SchemaConflictError: If a type or mode cannot become the promised one.
            ProjectionError: If a column is not wanted, or is implicit.
        """
        current = self._current_filter(context)
        fields = []
        for field in schema:
            if self._is_implicit(field.name) or self._schema.wanted.find(field.name) is None:
                raise ProjectionError(
                    f"{context}the reader produced column {field.name!r}, which this scan does not want."
                )
            projected = current.project(field).field
            if projected is not None:
                fields.append(projected)
        self._update(self._schema.merge(TupleSchema(fields)))

    def missing_columns(self, schema: TupleSchema) -> TupleSchema:
        """Return the columns of the reader input schema that a batch lacks.

        A LATE column of the batch counts as missing. A map that lacks members is returned with these members alone,
        also in an array of maps.
        """
        fields = (find_missing(field, schema.find(field.name)) for field in self._schema.reader_input)
        return TupleSchema(field for field in fields if field is not None)

    def resolve_missing_cols(self, missing: TupleSchema) -> None:
        """Set the types of columns that no reader has given a type.

        Args:
            missing: Columns of the reader input schema, such as those of :meth:`missing_columns`. Each LATE type is
                replaced, see :func:`engine.arrow_types.resolve_late`.

        Raises:
            SchemaConflictError: If a column already has another type.
            ProjectionError: If the scan has no such column.
        """
        known = self._schema.reader_input
        resolved = ColumnFilter(known, EVERYTHING, TupleSchema(), lambda _: False, self._context)
        fields = [resolved.project(field).field for field in missing]
        strangers = [field.name for field, found in zip(missing, fields, strict=True) if found is None]
        if strangers:
            raise ProjectionError(f"{self._context}column {strangers[0]!r} cannot be missing: the scan has none such.")
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
            # A defined schema has everything that is wanted. The query's own list also matches other columns, so that
            # they get a warning.
            wanted = self._project_list if self._is_defined else schema.wanted
            current = ColumnFilter(
                schema.reader_input, wanted, self._declared, lambda path: self._admit(path, context), context
            )
            self._filter = schema, context, current
        return self._filter[2]

    def _admit(self, path: str, context: ErrorContext) -> bool:
        may_join = self._may_grow and not self._is_defined
        if not may_join:
            self._warn(path, f"{context}column {path!r} is left out: the schema of the scan was complete before it.")
        return may_join

    def _is_implicit(self, name: str) -> bool:
        return self._schema.implicit.find(name) is not None

    def _is_shadowed(self, name: str, context: ErrorContext) -> bool:
        if self._is_implicit(name):
            self._warn(
                quote_name(name), f"{context}column {name!r} is left out: it has the name of an implicit column."
            )
            return True
        return False

    def _warn(self, path: str, message: str) -> None:
        if fold_case(path) not in self._warned:
            self._warned.add(fold_case(path))
            _log.warning("%s", message)
