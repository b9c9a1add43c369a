"""Reads what a statement names from an ``ExecutePlan`` request, for the audit log.

The audit log's thread calls this module, so reading a statement does not delay its execution. Large statements are not
read.

Source: [spark-connect-proto relations.proto], [spark-connect-proto commands.proto] and
[spark-connect-proto catalog.proto].
"""

import re
from collections.abc import Iterator, Mapping

from google.protobuf.message import DecodeError, Message
from pyspark.sql.connect.proto import base_pb2

from gateway.auditing.audit import Contents
from gateway.errors import GatewayError
from gateway.messages.deep_messages import decode_into
from gateway.sql.named_objects import find_named_objects

MAX_REQUEST_BYTES = 64 * 1024
"""The maximum size of a request that is read."""

_MAX_TEXT_CHARACTERS = 8 * 1024
_MAX_MESSAGES = 1000
_TABLE_FIELDS = frozenset({"unparsed_identifier", "table_name", "target_table_name"})
_FILE_FIELDS = frozenset({"path", "paths"})
_TEXT_FIELDS = frozenset({"sql", "query"})
_VIEW = "spark.connect.CreateDataFrameViewCommand"
_USER_INFORMATION = re.compile(r"(?<=://)[^/@]*@")


def describe_kind(plan: base_pb2.Plan) -> str:
    """Return the kind of a plan: ``query``, or the name of the command, such as ``sql_command``."""
    if plan.WhichOneof("op_type") == "command":
        return plan.command.WhichOneof("command_type") or "command"
    return "query"


def read_contents(request: bytes, *, with_text: bool) -> Contents:
    """Return what an ``ExecutePlan`` request names.

    Args:
        request: The request, with at most ``MAX_REQUEST_BYTES``.
        with_text: Whether to return the text of SQL statements.
    """
    message = base_pb2.ExecutePlanRequest()
    try:
        decode_into(message, request)
    except (DecodeError, GatewayError):
        return Contents(is_complete=False)
    return _Reader(with_text).read(message.plan)


class _Reader:
    def __init__(self, with_text: bool) -> None:
        self._with_text = with_text
        self._keyword = ""
        self._texts: dict[str, None] = {}
        self._tables: dict[str, None] = {}
        self._files: dict[str, None] = {}
        self._is_complete = True

    def read(self, plan: base_pb2.Plan) -> Contents:
        pending: list[Message] = [plan]
        visited = 0
        while pending:
            message = pending.pop()
            visited += 1
            if visited > _MAX_MESSAGES:
                self._is_complete = False
                break
            if message.DESCRIPTOR.full_name == _VIEW:
                self._tables[getattr(message, "name", "")] = None
            for field, value in message.ListFields():
                if field.message_type is not None:
                    pending.extend(_messages(value))
                elif field.type == field.TYPE_STRING:
                    self._take(field.name, value)
        if plan.HasField("compressed_operation"):
            self._is_complete = False
        return Contents(
            keyword=self._keyword,
            tables=tuple(self._tables),
            files=tuple(_USER_INFORMATION.sub("", path) for path in self._files),
            query_text=";\n".join(self._texts) if self._with_text else "",
            is_complete=self._is_complete,
        )

    def _take(self, field: str, value: str | list[str]) -> None:
        values = [value] if isinstance(value, str) else value
        if field in _TABLE_FIELDS:
            self._tables.update(dict.fromkeys(values))
        elif field in _FILE_FIELDS:
            self._files.update(dict.fromkeys(values))
        elif field in _TEXT_FIELDS:
            for text in values:
                self._read_text(text)

    def _read_text(self, text: str) -> None:
        self._texts[text] = None
        if len(text) > _MAX_TEXT_CHARACTERS:
            self._is_complete = False
        named = find_named_objects(text[:_MAX_TEXT_CHARACTERS])
        self._keyword = self._keyword or named.keyword
        self._tables.update(dict.fromkeys(named.tables))
        self._files.update(dict.fromkeys(named.files))


def _messages(value: object) -> Iterator[Message]:
    if isinstance(value, Message):
        yield value
    elif isinstance(value, Mapping):
        yield from (each for each in value.values() if isinstance(each, Message))
    else:
        yield from value  # type: ignore[misc] # a repeated field of messages
