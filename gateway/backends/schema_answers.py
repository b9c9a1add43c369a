"""The schema in an answer of a backend, whose contents nobody has checked."""

from collections.abc import Iterator

from google.protobuf.message import Message
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import types_pb2
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type
from pyspark.sql.types import StructType

from gateway.errors import GatewayError, SparkError, backend_failed
from gateway.sql.name_syntax import quote_name

_MAX_METADATA_CHARACTERS = 2 * 1024 * 1024


def read_schema(found: types_pb2.DataType, address: str) -> StructType:
    """Return the schema in an answer of a backend.

    Args:
        found: The type in the answer.
        address: The address of the backend.

    Raises:
        GatewayError: If the schema contains a user-defined type or too much metadata, or cannot be used.
    """
    _refuse_user_defined(found)
    _refuse_long_metadata(found)
    try:
        schema = proto_schema_to_pyspark_data_type(found)
    except (PySparkException, ValueError, RecursionError) as error:
        raise backend_failed(address, f"its schema of a relation cannot be used ({error})") from error
    if not isinstance(schema, StructType):
        raise backend_failed(address, f"the schema of a relation is {schema.typeName()}")
    return schema


def _refuse_user_defined(data_type: types_pb2.DataType) -> None:
    """Raise an error if a type is or contains a user-defined type.

    Converting a user-defined type would import a Python class that the client specifies.

    Raises:
        SparkError: If the type is or contains a user-defined type.
    """
    if not _has_user_defined(data_type):
        return
    columns = [field.name for field in data_type.struct.fields if _has_user_defined(field.data_type)]
    raise SparkError(
        "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
        "Tables cannot contain columns of user-defined types. Convert the columns to their underlying types.",
        format="table",
        columnName=", ".join(map(quote_name, columns)),
        columnType='"UDT"',
    )


def _refuse_long_metadata(data_type: types_pb2.DataType) -> None:
    """Raise an error if the metadata of all columns together are long. They are JSON, which is read at once.

    Raises:
        GatewayError: If the metadata have too many characters.
    """
    fields = (each for each in _parts_of(data_type) if isinstance(each, types_pb2.DataType.StructField))
    if sum(len(field.metadata) for field in fields) > _MAX_METADATA_CHARACTERS:
        raise GatewayError(
            "LODGE_TEMPORARY_TABLE_OPERATION",
            "0A000",
            f"The columns have metadata of more than {_MAX_METADATA_CHARACTERS:,} characters together, which Lodge "
            "does not store in tables. Remove the metadata, for example with col('a').alias('a', metadata={}).",
        )


def _has_user_defined(data_type: types_pb2.DataType) -> bool:
    return any(isinstance(each, types_pb2.DataType) and each.HasField("udt") for each in _parts_of(data_type))


def _parts_of(data_type: types_pb2.DataType) -> Iterator[Message]:
    """Yield a type and all messages in it."""
    pending: list[Message] = [data_type]
    while pending:
        message = pending.pop()
        yield message
        for descriptor, value in message.ListFields():
            if descriptor.message_type is not None:
                pending += [value] if isinstance(value, Message) else list(value)
