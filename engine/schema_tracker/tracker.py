"""The schema of a scan while it runs: what the query wants, what is promised, and what readers turned out to have.

Seed 002, ``ScanSchemaTracker``. One tracker serves one scan: readers follow one another, and each batch goes
through these steps, of which a reader without an early schema leaves out the first:

    tracker.apply_early_reader_schema(columns, context)      # before the reader reads
    loader = ResultSetLoader(tracker.projection_filter(context), ...)
    tracker.apply_reader_schema(batch_schema, context)       # after each batch
    missing = tracker.missing_columns(batch_schema)          # what something else must fill in
    tracker.resolve_missing_cols(missing_with_types)
    tracker.output_schema()

Guarantees:

1. Once resolved, columns stay: no column goes, moves, or changes name, type or mode. If schema changes are allowed,
   columns and members of maps are added; if not, those that come after this commit point are left out, with one
   warning for each name in the log of this module.
2. The version grows if, and only if, the output schema changes.
3. Of several readers, what the first has decides; a later type must become the type that is there, by the rules of
   :mod:`engine.schema_tracker.widening`, or is an error.
4. Columns beside a defined schema, and members beside those of its maps, are left out; with one warning for each name
   where the query wants everything, by a wildcard or as the whole map.
5. A reader's column with the name of an implicit column of this scan is left out, with one warning.

Not thread-safe: a scan is one task.
"""

import logging
from collections.abc import Iterable

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import NOWHERE, ProjectionError
from engine.projection.columns_array import ColumnsArraySelection, select_columns_array
from engine.projection.filter import ProjectionFilter
from engine.projection.path import ProjectedPath, quote_name
from engine.projection.project_list import EVERYTHING, ProjectionList, ProjectionType
from engine.schema import TupleSchema, fold_case
from engine.schema_tracker.column_filter import ColumnFilter
from engine.schema_tracker.initial import ImplicitNames, from_defined_schema, from_project_list, no_implicit_names
from engine.schema_tracker.live_filter import LiveFilter
from engine.schema_tracker.scan_schema import ScanSchema, find_missing

_log = logging.getLogger(__name__)


def schema_tracker(
    project_list: ProjectionList | Iterable[str],
    *,
    defined: TupleSchema | None = None,
    provided: TupleSchema | None = None,
    is_strict: bool = False,
    allows_schema_change: bool = False,
    implicit_names: ImplicitNames = no_implicit_names,
    context: ErrorContext = NOWHERE,
) -> "ScanSchemaTracker":
    """The tracker of one scan: schema-based if the whole schema is defined, else projection-based.

    Args:
        project_list: Parsed, or its elements.
        defined: The output, known beforehand; equal to the project list, or all that its wildcard stands for. Types may
            be LATE.
        provided: Types that a user declares. With a defined schema it only says which of its columns were declared,
            so that text may become their type, and any type text.
        is_strict: The provided schema has all columns that there are.
        allows_schema_change: Readers after the first may add columns, where a wildcard leaves them room.
        implicit_names: Knows implicit columns by name: :func:`engine.scan.implicit.implicit_field`.
        context: Of the scan, for errors that are of no reader.

    Raises:
        ProjectionError: The project list cannot be read, or does not suit the schemas.
        SchemaConflictError: An implicit column has another type in a schema.
    """
    listed = project_list if isinstance(project_list, ProjectionList) else ProjectionList.parse(project_list)
    declared = provided or TupleSchema()
    if defined is not None:
        schema = from_defined_schema(listed, defined, implicit_names=implicit_names, context=context)
    else:
        schema = from_project_list(
            listed,
            declared,
            is_strict=is_strict and provided is not None,
            implicit_names=implicit_names,
            context=context,
        )
    return ScanSchemaTracker(
        schema,
        declared,
        listed,
        is_defined=defined is not None,
        allows_schema_change=allows_schema_change,
        context=context,
    )


class ScanSchemaTracker:
    """Made by :func:`schema_tracker`."""

    def __init__(
        self,
        schema: ScanSchema,
        declared: TupleSchema,
        listed: ProjectionList,
        *,
        is_defined: bool,
        allows_schema_change: bool,
        context: ErrorContext,
    ) -> None:
        self._schema = schema
        self._declared = declared
        self._listed = listed
        self._is_defined = is_defined
        self._allows_schema_change = allows_schema_change
        self._context = context
        self._version = 1
        self._warned: set[str] = set()
        self._filter: tuple[ScanSchema, ErrorContext, ColumnFilter] | None = None

    def projection_type(self) -> ProjectionType:
        """What readers are asked for: ALL while they may add columns; NONE if no column is the table's."""
        wanted = self._schema.wanted.type
        return ProjectionType.SOME if wanted is ProjectionType.ALL and not self._may_grow else wanted

    def has_wildcard(self) -> bool:
        """Whether the query has a wildcard, to be expanded with partition columns."""
        return not self._is_defined and self._listed.type is ProjectionType.ALL

    def is_resolved(self) -> bool:
        """Whether the output schema is complete: each wildcard expanded, and no column LATE."""
        return self._schema.is_resolved

    def schema_version(self) -> int:
        return self._version

    def error_context(self) -> ErrorContext:
        return self._context

    def internal_schema(self) -> ScanSchema:
        """For tests of this package."""
        return self._schema

    def output_schema(self) -> TupleSchema:
        """All columns of a batch, in order. LATE, or without a wildcard's columns, as long as it is not resolved."""
        return self._schema.output

    def reader_input_schema(self) -> TupleSchema:
        """What the reader, and what stands in for missing columns, are to produce: no implicit columns."""
        return self._schema.reader_input

    def column_projection(self, name: str) -> ProjectedPath | None:
        """What of a column of the table is wanted; None if nothing is."""
        if self._is_implicit(name):
            return None
        is_known = self.projection_type() is not ProjectionType.ALL and self._schema.output.find(name) is None
        return None if is_known else self._schema.wanted.find(name)

    def select_columns_array(self) -> ColumnsArraySelection:
        """What is wanted of ``columns``, for a table that has no other column. Raises: ProjectionError."""
        return select_columns_array(self._schema.wanted, self._context)

    def expand_implicit_col(self, field: pa.Field) -> None:
        """Adds a partition column that the wildcard brings along, unless the query has a column of that name.

        Raises:
            ProjectionError: There is no wildcard.
        """
        if not self.has_wildcard():
            raise ProjectionError(f"{self._context}column {field.name!r} cannot be added: the query has no wildcard.")
        if self._schema.output.find(field.name) is None:
            self._become(self._schema.with_partition(field))

    def apply_implicit_cols(self) -> TupleSchema:
        """The implicit columns, in the order of the output."""
        return self._schema.implicit

    def apply_early_reader_schema(self, schema: TupleSchema, context: ErrorContext | None = None) -> None:
        """Takes the complete schema that a reader knows before it reads; columns that no one wants are left out.

        Raises:
            SchemaConflictError: A type or mode cannot become the promised one.
            ProjectionError: A column is not what the project list says.
        """
        wanted = (self.projection_filter(context or self._context).project(field).field for field in schema)
        self._become(self._schema.merged(TupleSchema(field for field in wanted if field is not None)))

    def projection_filter(self, context: ErrorContext) -> ProjectionFilter:
        """The filter for the loader of one reader. It follows the schema: what comes too late is left out."""
        return LiveFilter(lambda: self._current_filter(context), lambda name: self._is_shadowed(name, context))

    def apply_reader_schema(self, schema: TupleSchema, context: ErrorContext) -> None:
        """Takes the schema of a batch that a reader has produced.

        Columns under a wildcard that are new after the commit point are left out: the loader may have
        taken them in with the row that overflowed the batch before.

        Raises:
            SchemaConflictError: A type or mode cannot become the promised one.
            ProjectionError: A column is not wanted, or is implicit.
        """
        current = self._current_filter(context)
        taken = []
        for field in schema:
            if self._is_implicit(field.name) or self._schema.wanted.find(field.name) is None:
                raise ProjectionError(f"{context}column {field.name!r} is of a reader, but this scan does not want it.")
            projected = current.project(field).field
            if projected is not None:
                taken.append(projected)
        self._become(self._schema.merged(TupleSchema(taken)))

    def missing_columns(self, schema: TupleSchema) -> TupleSchema:
        """What a reader's batch lacks of the reader input schema.

        A column that the batch has as LATE counts as missing. A map that lacks members is there with those alone, also
        in an array of maps.
        """
        fields = (find_missing(field, schema.find(field.name)) for field in self._schema.reader_input)
        return TupleSchema(field for field in fields if field is not None)

    def resolve_missing_cols(self, missing: TupleSchema) -> None:
        """Names the types of columns that no reader has given a type.

        Args:
            missing: Of :meth:`missing_columns`, or any columns of the reader input schema, each LATE type replaced
                (:func:`engine.arrow_types.resolve_late`).

        Raises:
            SchemaConflictError: A column has a type already, and this is another.
            ProjectionError: The scan has no such column.
        """
        known = self._schema.reader_input
        resolved = ColumnFilter(known, EVERYTHING, TupleSchema(), lambda _: False, self._context)
        fields = [resolved.project(field).field for field in missing]
        strangers = [field.name for field, found in zip(missing, fields, strict=True) if found is None]
        if strangers:
            raise ProjectionError(f"{self._context}column {strangers[0]!r} cannot be missing: the scan has none such.")
        self._become(self._schema.resolved_by(TupleSchema(fields)))

    @property
    def _may_grow(self) -> bool:
        return self._allows_schema_change or not self._schema.is_resolved

    def _become(self, schema: ScanSchema) -> None:
        if schema.output != self._schema.output:
            self._version += 1
        self._schema = schema

    def _current_filter(self, context: ErrorContext) -> ColumnFilter:
        schema = self._schema
        if self._filter is None or self._filter[0] is not schema or self._filter[1] != context:
            # A defined schema is all that is wanted; by the query's own list, what stands beside it can be told of.
            wanted = self._listed if self._is_defined else schema.wanted
            made = ColumnFilter(
                schema.reader_input, wanted, self._declared, lambda path: self._admits(path, context), context
            )
            self._filter = schema, context, made
        return self._filter[2]

    def _admits(self, path: str, context: ErrorContext) -> bool:
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
