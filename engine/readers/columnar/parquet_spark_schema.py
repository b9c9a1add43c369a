"""The schema that Spark writes to the metadata of its Parquet files.

Spark reads its own files with this schema, because Parquet does not have all types of Spark.

| in the metadata | in the file | type in the scan |
| --- | --- | --- |
| ``variant`` | a struct, if the writer did not annotate it | variant |
| a user-defined type of Spark's machine learning | a struct | the user-defined type |
| ``interval day to second`` and its parts | microseconds | duration |
| a collation | text | text with the collation |
| ``void`` | nulls | void, if no file has another type |
| ``interval year to month`` and its parts, other user-defined types | | refused |

Source: [spark-data-source], ``ParquetFileFormat.readSchemaFromFooter``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import inner_fields, is_any_list, with_inner_fields
from engine.schema import with_type_of_nulls
from engine.spark_type import VARIANT, VOID, UnreadableType, collated, user_defined
from engine.variants import is_variant

KIND: Final = "Parquet"
SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"

_MALFORMED: Final = (ValueError, RecursionError, TypeError, KeyError, AttributeError)
_COLLATIONS: Final = "__COLLATIONS"
_HAS_TYPES: Final = re.compile(rb'"(variant|udt|void|interval [^"]*|' + _COLLATIONS.encode() + rb')"')
_DAY_TIME: Final = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
_YEAR_MONTH: Final = re.compile(r"interval (year|month)( to month)?")


class SparkSchema:
    """The types of Spark in the metadata of a file."""

    def __init__(self, columns: Mapping[str, Mapping[str, Any]]) -> None:
        self._columns = columns

    @classmethod
    def parse(cls, text: bytes | None) -> Self | None:
        """Return the types in a schema. None if Parquet has all of them, or if the schema cannot be parsed."""
        if text is None or _HAS_TYPES.search(text) is None:
            return None
        try:
            return cls(_members(json.loads(text)))
        except _MALFORMED:
            return None  # Spark also reads the types of the file

    def convert(self, columns: Sequence[pa.Field]) -> Sequence[pa.Field]:
        """Return columns with their types in Spark. If the schema is not well-formed, return them unchanged."""
        try:
            return [self._convert_member(column, self._columns.get(column.name)) for column in columns]
        except _MALFORMED:
            return columns

    def _convert_member(self, field: pa.Field, described: Mapping[str, Any] | None) -> pa.Field:
        """Return a column, or a member of a struct, which has the collations of everything in it."""
        if not isinstance(described, dict):
            return field
        collations = (described.get("metadata") or {}).get(_COLLATIONS) or {}
        return self._convert(field, described.get("type"), field.name, collations)

    def _convert(self, field: pa.Field, type_: Any, path: str, collations: Mapping[str, str]) -> pa.Field:
        if isinstance(type_, dict):
            return self._convert_nested(field, type_, path, collations)
        if type_ == "variant" and is_variant(field.type):
            return field.with_type(VARIANT)
        if type_ == "void":
            return with_type_of_nulls(field.with_type(pa.null()), VOID)
        if type_ == "string" and path in collations and pt.is_string(field.type):
            name = collations[path].rpartition(".")[2]
            return field.with_type(collated(name) if name.isidentifier() else UnreadableType(KIND, name, field.type))
        if isinstance(type_, str) and _YEAR_MONTH.fullmatch(type_):
            return field.with_type(UnreadableType(KIND, type_, field.type))
        is_duration = isinstance(type_, str) and pt.is_int64(field.type) and _DAY_TIME.fullmatch(type_)
        return field.with_type(pa.duration("us")) if is_duration else field

    def _convert_nested(
        self, field: pa.Field, type_: Mapping[str, Any], path: str, collations: Mapping[str, str]
    ) -> pa.Field:
        inner = inner_fields(field.type)
        match type_.get("type"):
            case "udt":
                known = user_defined(type_)
                name = f"user-defined type {type_.get('class') or type_.get('pyClass')}"
                return field.with_type(known or UnreadableType(KIND, name, field.type))
            case "struct" if pt.is_struct(field.type):
                members = _members(type_)
                found = [self._convert_member(one, members.get(one.name)) for one in inner]
            case "array" if is_any_list(field.type):
                found = [self._convert(inner[0], type_.get("elementType"), f"{path}.element", collations)]
            case "map" if pt.is_map(field.type):
                found = [
                    self._convert(one, type_.get(f"{part}Type"), f"{path}.{part}", collations)
                    for one, part in zip(inner, ("key", "value"), strict=True)
                ]
            case _:
                return field
        return field.with_type(with_inner_fields(field.type, found))


def _members(type_: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return {one["name"]: one for one in type_["fields"]}
