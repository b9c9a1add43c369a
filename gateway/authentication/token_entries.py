"""The tokens that Lodge issues, and the file that lists them.

A token consists of the prefix ``lodge_`` and 256 random bits. The prefix allows programs that search for leaked secrets
to recognize it. The file contains only the SHA-256 hash of each token. A hash without salt is sufficient, because
random tokens of this length cannot be guessed::

    tokens:
      - id: 5f2c9a1e
        sha256: 0c0bf9a6…
        principal: ada
        groups: [analysts]
        created: "2026-01-02T03:04:05Z"
        expires: "2026-02-01T03:04:05Z"
"""

import hashlib
import os
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StrictStr, ValidationError

from gateway.messages.identity import problem_with_name
from gateway.reloading.files import read_file
from gateway.reloading.last_valid_value import SourceError

TOKEN_PREFIX = "lodge_"  # noqa: S105 - not a secret
_RANDOM_BYTES = 32
_TOKEN = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43}}")
_ID_BYTES = 4
_MAX_FILE_BYTES = 32 * 1024 * 1024  # more than 100,000 tokens
_MAX_DEPTH = 8
_WRITABLE_BY_ALL = 0o002
_SIMPLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
_NO_WRAP = 2**31 - 1
_STRING_TAG = "tag:yaml.org,2002:str"
_RESOLVER = yaml.resolver.Resolver()
_HEADER = "# Tokens of Lodge. `lodge token` changes this file. It does not keep comments.\n"


def _check_name(name: str) -> str:
    problem = problem_with_name(name)
    if problem:
        raise ValueError(problem)
    return name


_Name = Annotated[StrictStr, AfterValidator(_check_name)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[StrictStr, Field(pattern=r"^[0-9A-Za-z._-]{1,64}$")]
    sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
    principal: _Name
    groups: tuple[_Name, ...] = ()
    created: AwareDatetime | None = None
    expires: AwareDatetime | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: tuple[_Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """A token in the file, without the token itself.

    Attributes:
        id: The name of the entry, for people.
        digest: The SHA-256 hash of the token.
        principal: The principal that the token authenticates.
        groups: The groups of the principal.
        created: When the token was created.
        expires: When the token expires. None if it does not expire.
    """

    id: str
    digest: bytes
    principal: str
    groups: tuple[str, ...] = ()
    created: datetime | None = None
    expires: datetime | None = None


def is_lodge_token(token: str) -> bool:
    """Return whether a string has the form of a token that Lodge issues."""
    return _TOKEN.fullmatch(token) is not None


def digest_of(token: str) -> bytes:
    """Return the hash under which the file lists a token."""
    return hashlib.sha256(token.encode()).digest()


def new_token(
    principal: str, groups: Sequence[str] = (), expires: datetime | None = None, *, now: datetime
) -> tuple[str, TokenEntry]:
    """Return a new random token and its entry in the file.

    Raises:
        ValueError: If the principal or a group cannot be a name.
    """
    for name in (principal, *groups):
        problem = problem_with_name(name)
        if problem:
            raise ValueError(f"The name {name!r} is not valid: {problem}.")
    token = TOKEN_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    unique = tuple(dict.fromkeys(groups))
    return token, TokenEntry(secrets.token_hex(_ID_BYTES), digest_of(token), principal, unique, now, expires)


def read_token_file(path: Path) -> bytes:
    """Return the content of a token file.

    Raises:
        SourceError: If the file cannot be read, is too large, or can be changed by every user of the host.
    """

    def check(status: os.stat_result) -> None:
        if status.st_mode & _WRITABLE_BY_ALL:
            raise SourceError(
                f"The token file [{path}] can be changed by every user of this host. Run: chmod o-w {path}"
            )

    return read_file(
        path,
        label=f"The token file [{path}]",
        max_bytes=_MAX_FILE_BYTES,
        if_unreadable=f"Create it with: lodge token create --file {path} --principal NAME",
        if_too_large="Remove expired tokens.",
        check=check,
    )


def parse_token_file(path: Path, content: bytes) -> Sequence[TokenEntry]:
    """Return the entries of a token file. An empty file contains no tokens.

    Args:
        path: The path of the file, for messages. Messages never contain a value from the file.
        content: The content of the file.

    Raises:
        SourceError: If the content is not valid.
    """
    try:
        document = _load(content)
        entries = _File.model_validate({} if document is None else document).tokens
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark else ""
        raise SourceError(f"The token file [{path}] is not valid YAML{place}. {_ADVICE}") from None
    except ValidationError as error:
        raise SourceError(f"The token file [{path}] is not valid: {_first_problem(error)}. {_ADVICE}") from None
    except ValueError:  # the structure, an unknown character, or a number or timestamp that Python does not support
        raise SourceError(f"The token file [{path}] is not valid. {_ADVICE}") from None
    for attribute in ("id", "sha256"):
        value, count = (Counter(getattr(entry, attribute) for entry in entries).most_common(1) or [("", 0)])[0]
        if count > 1:
            shown = f" [{value}]" if attribute == "id" else ""
            raise SourceError(f"The token file [{path}] contains the same {attribute}{shown} twice. Remove one entry.")
    return [
        TokenEntry(entry.id, bytes.fromhex(entry.sha256), entry.principal, entry.groups, entry.created, entry.expires)
        for entry in entries
    ]


def add_entry(entries: Sequence[TokenEntry], entry: TokenEntry) -> Sequence[TokenEntry]:
    """Return the entries with another one. It gets another id if its id is already used."""
    used = {each.id for each in entries}
    while entry.id in used:
        entry = replace(entry, id=secrets.token_hex(_ID_BYTES))
    return (*entries, entry)


def render_token_file(entries: Sequence[TokenEntry]) -> bytes:
    """Return the content of a token file with the given entries.

    Raises:
        ValueError: If the file would be too large to be read.
    """
    listed = "".join(map(_render, entries))
    content = f"{_HEADER}tokens:\n{listed}".encode() if entries else f"{_HEADER}tokens: []\n".encode()
    if len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"it would have more than {_MAX_FILE_BYTES:,} bytes")
    return content


def _render(entry: TokenEntry) -> str:
    """Return an entry as YAML. PyYAML's own emitter needs seconds for ten thousand entries."""
    lines = [f"id: {_text(entry.id)}", f"sha256: {_text(entry.digest.hex())}", f"principal: {_text(entry.principal)}"]
    if entry.groups:
        lines.append(f"groups: [{', '.join(map(_text, entry.groups))}]")
    if entry.created:
        lines.append(f"created: '{_timestamp(entry.created)}'")
    if entry.expires:
        lines.append(f"expires: '{_timestamp(entry.expires)}'")
    return "- " + "\n  ".join(lines) + "\n"


def _text(value: str) -> str:
    """Return a string as YAML, in quotes if it needs them."""
    if _SIMPLE.fullmatch(value) and isinstance(_plain_scalar(value), str):
        return value
    return yaml.dump([value], Dumper=yaml.CSafeDumper, allow_unicode=True, default_flow_style=True, width=_NO_WRAP)[
        1:-2
    ]


def _load(content: bytes) -> object:
    """Return the document in a token file.

    PyYAML's own loader needs seconds for ten thousand tokens, so this function builds the document from the events of
    the parser. It refuses structures that would exhaust the stack or the memory.

    Raises:
        yaml.YAMLError: If the content is not YAML.
        ValueError: If the content contains aliases, tags or several documents, or is nested too deeply.
    """
    documents: list[Any] = []
    open_collections = [documents]
    for event in yaml.parse(content, yaml.CSafeLoader):
        if isinstance(event, yaml.ScalarEvent):
            open_collections[-1].append(_scalar(event))
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.tag is not None:
                raise ValueError("the file contains tags")
            open_collections.append([])
            if len(open_collections) > _MAX_DEPTH + 1:
                raise ValueError("the file is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            items = open_collections.pop()
            is_mapping = isinstance(event, yaml.MappingEndEvent)
            open_collections[-1].append(_mapping(items) if is_mapping else items)
        elif isinstance(event, yaml.AliasEvent):
            raise ValueError("the file contains aliases")
    if len(documents) > 1:
        raise ValueError("the file contains several documents")
    return documents[0] if documents else None


def _mapping(items: Sequence[Any]) -> Mapping[str, Any]:
    keys = items[::2]
    if not all(isinstance(key, str) for key in keys):
        raise ValueError("a key is not a string")
    return dict(zip(keys, items[1::2], strict=True))


def _scalar(event: yaml.ScalarEvent) -> object:
    is_plain, is_quoted = event.implicit
    if is_plain:
        return _plain_scalar(event.value)
    if is_quoted:
        return event.value
    raise ValueError("the file contains tags")


@lru_cache
def _plain_scalar(value: str) -> object:
    """Return the value of a scalar without quotes, such as a number, a timestamp or a string."""
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]  # of its stubs
    if tag == _STRING_TAG:
        return value
    return yaml.load(value, yaml.CSafeLoader)


_ADVICE = "Restore the file, or create tokens with: lodge token create"


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_input=False, include_url=False, include_context=False)[0]
    names = [str(part) if isinstance(part, str) else f"entry {part + 1}" for part in problem["loc"]]
    return f"{', '.join(names) or 'the top level'}: {problem['msg']}"


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
