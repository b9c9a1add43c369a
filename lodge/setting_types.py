"""The types of settings, and the notation in which users write their values.

Options and environment variables provide values as strings. YAML provides strings, numbers, lists and mappings. The
message of each ValueError completes the sentence "The value [value] of the setting name is not valid: ".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

import durationpy
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from gateway.connections import backend_address

# Stricter than durationpy, which ignores unknown characters between two parts of a duration.
_DURATION = re.compile(r"(\d+(\.\d+)?(ms|s|m|h|d))+", re.ASCII)
_DURATION_EXPECTED = "it must be a duration longer than zero, such as 500ms, 30s, 5m or 1h"
_SECONDS = re.compile(r"\d+(\.\d+)?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST_LABEL = 63
_LONGEST_INSTANCE = 40  # with a suffix added, it must still fit into a label of at most 63 characters
_PRINCIPAL_AND_ADDRESS = re.compile(r"(.+)=([^=/;]+://[^=/;]+(?:/;.*|/)?)", re.DOTALL)
_PLAIN_NAME = re.compile(r"[^\s,=]+")


@dataclass(frozen=True, slots=True)
class Metavar:
    """The placeholder for the value of an option in the help text."""

    text: str


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    text = "" if isinstance(value, bool) else str(value)
    try:
        if _SECONDS.fullmatch(text):
            duration = timedelta(seconds=float(text))
        elif _DURATION.fullmatch(text):
            duration = durationpy.from_str(text)
        else:
            raise ValueError(_DURATION_EXPECTED)
    except OverflowError:
        raise ValueError(_DURATION_EXPECTED) from None
    if duration <= timedelta(0):
        raise ValueError(_DURATION_EXPECTED)
    return duration


def _duration_or_zero(value: object) -> timedelta:
    is_zero = value == timedelta(0) or (not isinstance(value, bool) and re.fullmatch(r"0(ms|s|m|h|d)?", str(value)))
    return timedelta(0) if is_zero else _duration(value)


def _listen_address(value: str) -> str:
    expected = "it must be HOST:PORT, such as 127.0.0.1:15002; with port 0, the system chooses a port"
    try:
        parts = urlsplit(f"//{value}")
        is_valid = bool(parts.hostname) and parts.port is not None and _is_host_and_port(parts)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(expected)
    return value


def _check_label(value: str, *, longest: int) -> str:
    if len(value) > longest or not _LABEL.fullmatch(value):
        raise ValueError(
            f"it must consist of at most {longest} lower-case letters, digits and '-', and begin and end with a letter "
            "or digit, such as lodge-1"
        )
    return value


def _backend_address(value: str) -> str:
    try:
        address = backend_address.BackendAddress.parse(value)
        is_valid = _is_host_and_port(urlsplit(f"//{address.target}")) and not address.target.endswith(":0")
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(
            "it must be sc://HOST:PORT, or sc://HOST:PORT/;use_ssl=true for a server with TLS; write a token into the "
            "file of the setting backend_token_file"
        )
    return str(address)


def _is_host_and_port(parts: SplitResult) -> bool:
    plain = not (parts.query or parts.fragment or parts.path.strip("/"))
    return plain and re.search(r"[\s@,;]", parts.netloc) is None


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _split_uris(value: object) -> object:
    """Parse a string of comma-separated ``NAME=URI`` pairs into a mapping."""
    if not isinstance(value, str):
        return value
    pairs = [part.strip().partition("=") for part in value.split(",")]
    for name, separator, uri in pairs:
        if not (name and separator and uri):
            raise ValueError("it must be NAME=URI, such as dfs=file:///data; write a comma in a URI as %2C")
    return {name: uri for name, _, uri in pairs}


def _check_names(value: Mapping[str, str]) -> Mapping[str, str]:
    for name in value:
        if not _PLAIN_NAME.fullmatch(name):
            raise ValueError(f"the workspace name [{name}] must not contain a space, a comma or an equals sign")
    return value


def _split_principals(value: object) -> object:
    """Parse a string of comma-separated ``PRINCIPAL=sc://HOST:PORT`` pairs into a mapping."""
    if not isinstance(value, str):
        return value
    pairs = [_PRINCIPAL_AND_ADDRESS.fullmatch(part.strip()) for part in value.split(",")]
    if None in pairs:
        raise ValueError("it must be PRINCIPAL=sc://HOST:PORT, such as ada=sc://127.0.0.1:15003")
    return {pair[1]: pair[2] for pair in pairs if pair is not None}


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(_duration), Metavar("DURATION")]
DurationOrZero = Annotated[timedelta, BeforeValidator(_duration_or_zero), Metavar("DURATION")]
ListenAddress = Annotated[str, AfterValidator(_listen_address), Metavar("HOST:PORT")]
ObjectName = Annotated[str, AfterValidator(partial(_check_label, longest=_LONGEST_LABEL))]
InstanceName = Annotated[str, AfterValidator(partial(_check_label, longest=_LONGEST_INSTANCE)), Metavar("NAME")]
BackendAddress = Annotated[str, AfterValidator(_backend_address)]
Backends = Annotated[tuple[BackendAddress, ...], NoDecode, BeforeValidator(_split), Metavar("sc://HOST:PORT")]
WorkspaceUris = Annotated[
    dict[str, str],
    NoDecode,
    BeforeValidator(_split_uris),
    AfterValidator(_check_names),
    Metavar("NAME=URI"),
]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split), Metavar("NAME")]
PrincipalBackends = Annotated[
    dict[str, BackendAddress], NoDecode, BeforeValidator(_split_principals), Metavar("PRINCIPAL=sc://HOST:PORT")
]
Memory = Annotated[str, Field(pattern=r"(?i)^[1-9]\d*[kmgt]$"), Metavar("SIZE")]
LowerCase = BeforeValidator(_lower)
AuditDestination = Annotated[str | None, Field(min_length=1), Metavar("FILE")]
