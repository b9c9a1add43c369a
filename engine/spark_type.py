"""Types of Spark that Arrow does not have.

Such a type is an extension type of Arrow with the name of the type in Spark. The engine moves its values as a whole: it
neither looks into them nor compares them. :mod:`engine.spark_schema` converts the types and the values for Spark.

| type | values are stored as |
| --- | --- |
| ``variant`` | a struct of ``value`` and ``metadata``, as in Spark's own Arrow batches |
| ``geometry(<srid>)``, ``geography(<srid>)`` | well-known binary |
| ``vector``, ``matrix``, the user-defined types of Spark's machine learning | their own struct |
| ``string collate <name>`` | text |
| ``void`` | nulls |

Source: [spark-data-source], [parquet-variant].
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import pyarrow as pa


class SparkType(pa.ExtensionType):  # type: ignore[misc]
    """A type of Spark.

    Args:
        name: The name of the type in Spark, or the class of a user-defined type.
        storage: The type in which its values are stored.
    """

    def __init__(self, name: str, storage: pa.DataType) -> None:
        self.name = name
        super().__init__(storage, "lodge.spark")

    @property
    def spark_name(self) -> str:
        """The name of the type in error messages."""
        return _NAMES.get(self.name, self.name)

    @property
    def is_text(self) -> bool:
        """Whether the values are text, which can be converted to text without a collation."""
        return bool(pa.types.is_string(self.storage_type))

    def __arrow_ext_serialize__(self) -> bytes:
        return self.name.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Self:
        return cls(serialized.decode(), storage_type)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparkType):
            return False
        return self.name == other.name and bool(self.storage_type.equals(other.storage_type))

    def __ne__(self, other: object) -> bool:
        return not self == other  # Arrow's own comparison ignores the name

    def __hash__(self) -> int:
        return hash((self.name, self.storage_type))


class UnreadableType(pa.ExtensionType):  # type: ignore[misc]
    """A type that scans do not have. Its values are never read, because they would be read as another type.

    Args:
        kind: The format of the file.
        name: The name of the type in the format.
        storage: The type that Arrow gives it.
    """

    def __init__(self, kind: str, name: str, storage: pa.DataType) -> None:
        self.kind, self.name = kind, name
        super().__init__(storage, "lodge.unreadable")

    @property
    def spark_name(self) -> str:
        """The name of the type in error messages."""
        return f"{self.name} of {self.kind}"

    def __arrow_ext_serialize__(self) -> bytes:
        return f"{self.kind}\n{self.name}".encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Self:
        kind, _, name = serialized.decode().partition("\n")
        return cls(kind, name, storage_type)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnreadableType) or (self.kind, self.name) != (other.kind, other.name):
            return False
        return bool(self.storage_type.equals(other.storage_type))

    def __ne__(self, other: object) -> bool:
        return not self == other  # Arrow's own comparison ignores the name

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.storage_type))


def find_unreadable(type_: pa.DataType) -> UnreadableType | None:
    """Return the first type in a type that cannot be read. None if there is none."""
    return next((one for one in _find_types(type_) if isinstance(one, UnreadableType)), None)


def contains_spark_type(type_: pa.DataType) -> bool:
    """Return whether a type is, or contains, a type of Spark, or one that cannot be read."""
    return next(_find_types(type_), None) is not None


def _find_types(type_: pa.DataType) -> Iterator[SparkType | UnreadableType]:
    """Yield the types of this module in a type, in their order."""
    if isinstance(type_, SparkType | UnreadableType):
        yield type_
    elif pa.types.is_nested(type_):
        for number in range(type_.num_fields):
            yield from _find_types(type_.field(number).type)


VARIANT: Final = SparkType(
    "variant",
    pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        ]
    ),
)
VOID: Final = SparkType("void", pa.null())

_VECTOR: Final = pa.struct(
    [
        pa.field("type", pa.int8(), nullable=False),
        pa.field("size", pa.int32()),
        pa.field("indices", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("values", pa.list_(pa.field("element", pa.float64(), nullable=False))),
    ]
)
_MATRIX: Final = pa.struct(
    [
        pa.field("type", pa.int8(), nullable=False),
        pa.field("numRows", pa.int32(), nullable=False),
        pa.field("numCols", pa.int32(), nullable=False),
        pa.field("colPtrs", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("rowIndices", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("values", pa.list_(pa.field("element", pa.float64(), nullable=False))),
        pa.field("isTransposed", pa.bool_(), nullable=False),
    ]
)

USER_DEFINED: Final[Mapping[str, SparkType]] = {
    f"org.apache.spark.{package}.linalg.{kind}UDT": SparkType(f"org.apache.spark.{package}.linalg.{kind}UDT", storage)
    for package in ("ml", "mllib")
    for kind, storage in (("Vector", _VECTOR), ("Matrix", _MATRIX))
}
"""The user-defined types that Spark contains, by their class.

The metadata of a file can name any class of the JVM, and Python code that deserializes it. No other type is therefore
read.
"""

_NAMES: Final = {name: "vector" if "Vector" in name else "matrix" for name in USER_DEFINED}

_SRIDS: Final = {"OGC:CRS84": 4326, "EPSG:3857": 3857, "SRID:0": 0}
"""The coordinate reference systems that Spark knows, and their numbers."""

_GEOGRAPHIC: Final = frozenset({4326})
DEFAULT_CRS: Final = "OGC:CRS84"


def geometry(crs: str) -> SparkType | None:
    """Return the type of geometries in a coordinate reference system. None if Spark does not know it."""
    srid = _SRIDS.get(crs)
    return None if srid is None else SparkType(f"geometry({srid})", pa.binary())


def geography(crs: str) -> SparkType | None:
    """Return the type of geographies in a coordinate reference system. None if Spark does not know it."""
    srid = _SRIDS.get(crs)
    return SparkType(f"geography({srid})", pa.binary()) if srid in _GEOGRAPHIC else None


def collated(collation: str) -> SparkType:
    """Return the type of text with a collation."""
    return SparkType(f"string collate {collation}", pa.string())


def user_defined(type_: Mapping[str, Any]) -> SparkType | None:
    """Return a user-defined type from its description in Spark's JSON. None if it is not one that is read."""
    return USER_DEFINED.get(str(type_.get("class")))


def describe_user_defined(type_: SparkType) -> dict[str, Any]:
    """Return the description of a user-defined type in Spark's JSON."""
    package, _, name = type_.name.removeprefix("org.apache.spark.").rpartition(".")
    return {"type": "udt", "class": type_.name, "pyClass": f"pyspark.{package}.{name}", "sqlType": {}}


pa.register_extension_type(VOID)
pa.register_extension_type(UnreadableType("", "", pa.null()))
