"""Finds the messages of a plan that can contain a name.

Names can be nested deeply in a plan, but only messages of a few types contain names. The other messages, for example
data, types and functions, can be large and are not visited. The functions of this module are not recursive, so the
depth of a plan is limited only by its decoder.

Source: [spark-connect-proto], ``base.proto``, ``relations.proto``, ``commands.proto`` and ``expressions.proto``.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from pyspark.sql.connect.proto import commands_pb2, expressions_pb2, relations_pb2

_Expression = expressions_pb2.Expression
KINDS_WITH_NAMES: frozenset[str] = frozenset(
    kind.DESCRIPTOR.full_name
    for kind in (
        commands_pb2.SqlCommand,
        commands_pb2.WriteStreamOperationStart,
        relations_pb2.CommonInlineUserDefinedDataSource,
        relations_pb2.Relation,
        _Expression.ExpressionString,
        _Expression.UnresolvedAttribute,
        _Expression.UnresolvedStar,
        _Expression.UnresolvedRegex,
    )
)


def find_messages_with_names(root: Message) -> Sequence[Message]:
    """Return all messages whose type is in ``KINDS_WITH_NAMES``, innermost first."""
    found: list[Message] = []
    pending = [root]
    while pending:
        message = pending.pop()
        if message.DESCRIPTOR.full_name in KINDS_WITH_NAMES:
            found.append(message)
        pending.extend(find_children(message, fields_with_names(cast("Descriptor", message.DESCRIPTOR))))
    found.reverse()
    return found


def find_statement_texts(messages: Sequence[Message], root: relations_pb2.Relation | None) -> frozenset[int]:
    """Return the ``id`` of each relation that is the text of a SQL command, or of a plan that is a statement.

    Args:
        messages: The messages of a plan. The caller must keep references to them, so that the ids remain valid.
        root: The root of the plan, if the plan is executed and consists of a SQL text.
    """
    inputs = [one.input for one in messages if isinstance(one, commands_pb2.SqlCommand) and one.HasField("input")]
    inputs += [] if root is None else [root]
    return frozenset(map(id, (*inputs, *(one.with_relations.root for one in inputs if one.HasField("with_relations")))))


def find_children(message: Message, followed: frozenset[int]) -> Iterator[Message]:
    """Yield the messages in the fields with the given numbers. All these fields contain messages."""
    if not followed:
        return
    for field, value in message.ListFields():
        if field.number not in followed:
            continue
        if isinstance(value, Message):
            yield value
        elif isinstance(value, Mapping):
            yield from value.values()
        else:
            yield from value


def fields_with_names(kind: Descriptor) -> frozenset[int]:
    """Return the numbers of the fields whose messages can contain a name."""
    return fields_reaching(kind, KINDS_WITH_NAMES)


@lru_cache(maxsize=4096)
def fields_reaching(kind: Descriptor, wanted: frozenset[str]) -> frozenset[int]:
    """Return the numbers of the fields whose messages can contain, or are, messages of the wanted types."""
    return frozenset(
        field.number
        for field in kind.fields
        if field.message_type is not None
        and not is_map_of_scalars(field.message_type)
        and _reaches(field.message_type, wanted)
    )


def _reaches(kind: Descriptor, wanted: frozenset[str]) -> bool:
    """Return whether messages of a type can contain, or are, messages of the wanted types."""
    seen, pending = {kind.full_name}, [kind]
    while pending:
        current = pending.pop()
        if current.full_name in wanted:
            return True
        for field in current.fields:
            if field.message_type is not None and field.message_type.full_name not in seen:
                seen.add(field.message_type.full_name)
                pending.append(field.message_type)
    return False


def is_map_of_scalars(kind: Descriptor) -> bool:
    """Return whether a message type is the entry of a map whose values are not messages."""
    return bool(kind.GetOptions().map_entry) and kind.fields_by_name["value"].message_type is None
