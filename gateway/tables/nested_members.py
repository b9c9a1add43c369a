"""Matches the members of structs in inserted rows to those of the table, also inside arrays and maps.

An insertion by position matches members by position and ignores their names. An insertion by name matches them by name.
``Dataset.to``, which converts the values afterwards, knows names only. Therefore, the members of the rows get the names
of the table first.

Source: Spark's ``TableOutputResolver``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from gateway.backends.session_settings import SessionSettings
from gateway.errors import SparkError
from gateway.sql.name_syntax import quote_name


@dataclass(frozen=True, slots=True)
class Members:
    """The members of one column.

    Attributes:
        table: The name of the table.
        path: The column, and the members on the way.
        by_name: Whether members are matched by name instead of by position.
        settings: The session settings, which determine how names are compared.
    """

    table: str
    path: Sequence[str]
    by_name: bool
    settings: SessionSettings

    def rename(self, found: DataType, expected: DataType) -> DataType:
        """Return the type of a column of the rows, with the member names of the table.

        Types that do not match are returned unchanged. The conversion to the type of the table refuses them.

        Raises:
            SparkError: If a struct has a member too many or too few.
        """
        if isinstance(found, ArrayType) and isinstance(expected, ArrayType):
            element = self._below("element").rename(found.elementType, expected.elementType)
            return ArrayType(element, found.containsNull)
        if isinstance(found, MapType) and isinstance(expected, MapType):
            key = self._below("key").rename(found.keyType, expected.keyType)
            value = self._below("value").rename(found.valueType, expected.valueType)
            return MapType(key, value, found.valueContainsNull)
        if not (isinstance(found, StructType) and isinstance(expected, StructType)):
            return found
        pairs = self._match_names(found, expected) if self.by_name else self._match_positions(found, expected)
        return StructType(
            [
                StructField(target.name, self._below(target.name).rename(own.dataType, target.dataType), own.nullable)
                for own, target in pairs
            ]
        )

    def _match_positions(self, found: StructType, expected: StructType) -> Sequence[tuple[StructField, StructField]]:
        if len(found) > len(expected):
            raise self._extra(found.names[len(expected) :])
        if len(found) < len(expected):
            missing = ", ".join(map(quote_name, expected.names[len(found) :]))
            raise SparkError(
                "INCOMPATIBLE_DATA_FOR_TABLE.STRUCT_MISSING_FIELDS",
                f"{self._incompatible} Struct {self._name} missing fields: {missing}.",
                tableName=quote_name(self.table),
                colName=self._name,
                missingFields=missing,
            )
        return list(zip(found.fields, expected.fields, strict=True))

    def _match_names(self, found: StructType, expected: StructType) -> Sequence[tuple[StructField, StructField]]:
        """Return the members in the order of the rows. The conversion brings them into the order of the table."""
        comparable = self.settings.comparable_name
        targets = {comparable(field.name): field for field in expected.fields}
        own = {comparable(name) for name in found.names}
        missing = next((field.name for key, field in targets.items() if key not in own), None)
        if missing is not None:
            path = self._below(missing)._name
            raise SparkError(
                "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA",
                f"{self._incompatible} Cannot find data for the output column {path}.",
                tableName=quote_name(self.table),
                colName=path,
            )
        extra = [name for name in found.names if comparable(name) not in targets]
        if extra:
            raise self._extra(extra)
        return [(field, targets[comparable(field.name)]) for field in found.fields]

    @property
    def _name(self) -> str:
        return ".".join(map(quote_name, self.path))

    def _below(self, name: str) -> "Members":
        return replace(self, path=(*self.path, name))

    @property
    def _incompatible(self) -> str:
        return f"Cannot write incompatible data for the table {quote_name(self.table)}:"

    def _extra(self, names: Sequence[str]) -> SparkError:
        extra = ", ".join(map(quote_name, names))
        return SparkError(
            "INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_STRUCT_FIELDS",
            f"{self._incompatible} Cannot write extra fields {extra} to the struct {self._name}.",
            tableName=quote_name(self.table),
            colName=self._name,
            extraFields=extra,
        )
