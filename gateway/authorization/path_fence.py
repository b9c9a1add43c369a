"""Decides whether a path may lead into the default temporary workspace.

Clients reach temporary tables by name. A direct path would bypass the checks of sessions and principals, so paths that
may lead into a root are refused. This is a second line of defense. The first one is a separate backend for each
principal.

A path is refused if it refers to a root, to anything below a root, or to a directory that contains a root. A pattern
is refused if it may match such a path. The comparison is conservative: different spellings of a path, such as
``file:/a``, ``/a/../a`` and ``/%61``, are all compared.

Guarantees about time:

1. A path above ``MAX_PATH_CHARACTERS`` is refused before anything is compared. A value of that length that may be
   something other than a path is not expanded.
2. All alternatives of the patterns in a request have at most as many characters as :class:`Expansions` allows. What
   would need more is refused.
3. Otherwise, the time is proportional to the length of a text, times the length of the paths of the roots.

Not guaranteed: a path is compared as text, and its symbolic links are followed where this process sees the same files
as Spark. Links inside the part of a path that a pattern matches, mounts, and code that opens files itself are not seen.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from workspace.identifiers import is_uuid
from workspace.storage_paths import OWN_DIRECTORY, StoragePath

UNKNOWN = "\ufffc"
"""A placeholder for a part of a path that only Spark can compute. This part may contain slashes."""

_S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
_REMOTE_SCHEMES = _S3_SCHEMES | {
    *("abfs", "abfss", "adl", "cosn", "dbfs", "ftp", "gs", "hdfs", "http", "https", "jdbc", "oss", "sftp", "swebhdfs"),
    *("wasb", "wasbs", "webhdfs"),
}
_LOCAL_SCHEMES = frozenset({"", "file", "har", "local", "raw", "rawlocal", "viewfs"})
_SCHEMES = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*+:)*+")
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_PATTERN_ITEM = re.compile(
    r"\\(?P<escaped>.) | \[(?:\\.|[^\]\\])*+\] | (?P<star>\*+) | \? | (?P<other>.)", re.DOTALL | re.VERBOSE
)
_BRACE = re.compile(r"\\.|[{},]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MANY, _ANY = "many", "any"
_MAX_PATTERN_CHARACTERS = 1024
_UUID_CHARACTERS = frozenset("0123456789abcdef-")
_PROCESS_LINKS = ("root", "cwd", "fd", "map_files")
_MAX_ALTERNATIVES = 256
_FREE_CHARACTERS = 16 * 1024
_PART = re.compile(r"[^/]+")
_PIECE_CHARACTERS = 65_536
MAX_PATH_CHARACTERS = 4096
"""The longest path that Linux accepts. Paths in object stores are shorter."""


class Expansions:
    """Limits the alternatives of all patterns in a request.

    Args:
        text_characters: The length of the texts of the request.
    """

    def __init__(self, text_characters: int = 0) -> None:
        self._characters_left = _FREE_CHARACTERS + 2 * text_characters

    def allow(self, characters: int) -> bool:
        """Return whether a further alternative of this length is allowed."""
        self._characters_left -= characters
        return self._characters_left >= 0


@dataclass(frozen=True, slots=True)
class _Location:
    """One spelling of a path.

    Attributes:
        scheme: The scheme in lower case. Empty without a scheme.
        authority: The host or bucket.
        is_absolute: Whether the path begins with a slash.
        parts: The names in the path, without ``.`` and ``..``.
        leaves: Whether a relative path begins with ``..``.
    """

    scheme: str
    authority: str
    is_absolute: bool
    parts: tuple[str, ...]
    leaves: bool


class PathFence:
    """The fence around all roots of the default temporary workspace.

    Args:
        roots: The roots, as paths of directories or as ``s3:`` URIs.
    """

    def __init__(self, roots: Sequence[StoragePath]) -> None:
        self._directories = [root.parts[1:] for root in roots if isinstance(root, Path)]
        self._prefixes = [
            tuple(part for part in root.partition("://")[2].split("/") if part)
            for root in roots
            if not isinstance(root, Path)
        ]

    def refuses(self, path: str, *, is_value: bool = False, expansions: Expansions | None = None) -> bool:
        """Return whether the text of a path may lead into a root, without access to files.

        Args:
            path: The path or the pattern, as the client wrote it.
            is_value: Whether the text may be something other than a path. In this case, a text is refused only if it
                has at least as many parts as the path of a root.
            expansions: The limit for all texts of the request. None for a text of its own.
        """
        text = path.strip()
        is_long = len(text) > MAX_PATH_CHARACTERS
        if is_long and not is_value:
            return True
        expansions = expansions or Expansions(len(text))
        spellings = {text, _decode(text)}
        return any(
            self._refuses_location(location, is_value=is_value)
            for spelling in spellings
            for alternative in ((spelling,) if is_long else _expand_braces(spelling, expansions))
            for location in _read_locations(alternative)
        )

    def refuses_real(self, path: str) -> bool:
        """Return whether a path leads into a root if its symbolic links are followed. This accesses the file system."""
        text = path.strip()
        if not self._directories:
            return False
        if len(text) > MAX_PATH_CHARACTERS:
            return True
        for alternative in _expand_braces(text, Expansions(len(text))):
            for location in _read_locations(alternative):
                if not location.is_absolute or location.scheme in _REMOTE_SCHEMES:
                    continue
                is_fixed = [not (_PATTERN.search(part) or UNKNOWN in part) for part in location.parts]
                count = is_fixed.index(False) if False in is_fixed else len(is_fixed)
                real = _follow_links("/" + "/".join(location.parts[:count]))
                if real is not None and self._refuses_directory((*real, *location.parts[count:]), is_value=False):
                    return True
            plain = alternative[len(_first_scheme(alternative)) :]
            if ".." in plain and plain.startswith("/") and not _PATTERN.search(plain):
                real = _follow_links(plain)  # links before .. change the meaning of ..
                if real is not None and self._refuses_directory(real, is_value=False):
                    return True
        return False

    def _refuses_location(self, location: _Location, *, is_value: bool) -> bool:
        if location.scheme in _S3_SCHEMES:
            bucket = location.authority.rpartition("@")[2]
            parts = (bucket, *location.parts)
            return any(_reaches(parts, root, is_value=is_value) for root in self._prefixes)
        if location.scheme in _REMOTE_SCHEMES:
            return False
        is_value = is_value or location.scheme not in _LOCAL_SCHEMES  # for example postgresql://host/
        if not is_value and any(_reaches_relative(location, root[1:]) for root in self._prefixes):
            return True
        if location.is_absolute:
            return self._refuses_directory(location.parts, is_value=is_value)
        return not is_value and any(_reaches_relative(location, root) for root in self._directories)

    def _refuses_directory(self, parts: Sequence[str], *, is_value: bool) -> bool:
        if not self._directories:
            return False
        if len(parts) > 1 and _matches(parts[0], "proc"):
            return any(_matches(part, link) for part in parts[1:] for link in _PROCESS_LINKS)
        return any(_reaches(parts, root, is_value=is_value) for root in self._directories)


def _decode(text: str) -> str:
    """Return a text without percent-encoded characters. No other thread runs while a piece is decoded."""
    if "%" not in text:
        return text
    pieces, begin = [], 0
    while begin < len(text):
        end = _end_of_piece(text, begin + _PIECE_CHARACTERS)
        pieces.append(unquote(text[begin:end]))
        begin = end
    return "".join(pieces)


def _end_of_piece(text: str, end: int) -> int:
    """Return the last position up to the given one that does not lie in an encoded character."""
    if end >= len(text):
        return len(text)
    escape = text.rfind("%", end - 2, end)
    end = escape if escape >= 0 else end
    for _ in range(3):  # the bytes of a character after the first
        if text[end] == "%" and text[end + 1 : end + 2] in set("89abAB") and text[end - 3] == "%":
            end -= 3
    return end


def _follow_links(path: str) -> Sequence[str] | None:
    """Return the names in the real path of a file. None if no file can have the path."""
    if len(path) > MAX_PATH_CHARACTERS or "\0" in path:
        return None
    return Path(os.path.realpath(path)).parts[1:]


def _reaches(parts: Sequence[str], root: Sequence[str], *, is_value: bool) -> bool:
    """Return whether an absolute path is a root, below it or above it."""
    for part, name in zip(parts, root, strict=False):
        if UNKNOWN in part:
            before = part.partition(UNKNOWN)[0]
            return _PATTERN.search(before) is not None or name.startswith(before)
        if not _matches(part, name):
            return False
    return not is_value or len(parts) >= len(root) or any(UNKNOWN in part for part in parts)


def _reaches_relative(location: _Location, root: Sequence[str]) -> bool:
    """Return whether a relative path may lead into a root.

    The directory in which the path begins is not known. The path is refused if it could begin in a directory above the
    root and leads to the root or to Lodge's own files, or if it begins with the name of such files.
    """
    parts = location.parts
    if not parts:
        return location.leaves and bool(root)
    for start in range(len(root) + 1):
        rest = root[start:]
        if any(UNKNOWN in part for part in parts[: len(rest) + 1]):
            return True
        if len(parts) < len(rest) or not all(map(_matches, parts, rest)):
            continue
        following = parts[len(rest) :]
        if (not following and rest) or (following and _may_be_own(following[0])):
            return True
    return False


def _may_be_own(part: str) -> bool:
    """Return whether a name may be the name of a session location or of Lodge's own directory."""
    if _matches(part, OWN_DIRECTORY) or is_uuid(part.lower()):
        return True
    return _PATTERN.search(part) is not None and set(_PATTERN.sub("", part)) <= _UUID_CHARACTERS


def _matches(part: str, name: str) -> bool:
    """Return whether a name, or a Hadoop pattern for names, matches another name."""
    if part == name:
        return True
    if UNKNOWN in part:
        return True
    return _PATTERN.search(part) is not None and _matches_pattern(part, name)


def _matches_pattern(pattern: str, name: str) -> bool:
    """Return whether a Hadoop pattern matches a name. A character class matches every character."""
    if len(pattern) > _MAX_PATTERN_CHARACTERS:
        return True
    items = [
        _MANY if match["star"] else match["escaped"] or match["other"] or _ANY
        for match in _PATTERN_ITEM.finditer(pattern)
    ]
    position = item = 0
    last_star, restart = -1, 0
    while position < len(name):
        if item < len(items) and items[item] == _MANY:
            last_star, restart = item, position
            item += 1
        elif item < len(items) and items[item] in (_ANY, name[position]):
            item += 1
            position += 1
        elif last_star >= 0:
            restart += 1
            item, position = last_star + 1, restart
        else:
            return False
    return all(each == _MANY for each in items[item:])


def _read_locations(text: str) -> Iterator[_Location]:
    """Yield the locations that a path may mean.

    Hadoop reads ``//a/b`` as the path ``/b`` of the host ``a``. Other programs read it as ``/a/b``.
    """
    schemes = _read_schemes(text)  # for example jar:file:
    scheme, text = schemes[:-1].rpartition(":")[2].lower(), text[len(schemes) :]
    if not text and not scheme:
        return
    if text.startswith("//"):
        authority, slash, path = text[2:].partition("/")
        yield _location(scheme, authority, slash + path)
        if scheme in _REMOTE_SCHEMES:
            return
    yield _location(scheme, "", text)


def _read_schemes(text: str) -> str:
    """Return all schemes with which a text begins, each with its colon."""
    match = _SCHEMES.match(text)
    return match[0] if match else ""


def _first_scheme(text: str) -> str:
    before, colon, _ = _read_schemes(text).partition(":")
    return before + colon


def _location(scheme: str, authority: str, path: str) -> _Location:
    parts: list[str] = []
    leaves = False
    is_absolute = path.startswith("/") or bool(authority)
    for match in _PART.finditer(path):  # one by one, because no other thread runs while re.split reads a long text
        part = match[0]
        name = _ESCAPED.sub(r"\1", part)  # Hadoop reads \.\. as the directory above
        if name in ("", "."):
            continue
        if name != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            leaves = leaves or not is_absolute
    return _Location(scheme, authority, is_absolute, tuple(parts), leaves)


def _expand_braces(text: str, expansions: Expansions) -> Sequence[str]:
    """Return the alternatives of a pattern such as ``{a,b}/c``.

    If there are too many, the result has one alternative that may mean any path.
    """
    if "{" not in text:
        return (text,)
    found = []
    pending = [(text, 0)]  # a text, and the position up to which it is expanded
    while pending:
        partly, position = pending.pop()
        if not expansions.allow(len(partly)):
            return (UNKNOWN,)
        braces = _find_braces(partly, position)
        if braces is None:
            found.append(partly)
            if len(found) > _MAX_ALTERNATIVES:
                return (UNKNOWN,)
            continue
        start, end, items = braces
        pending += [(partly[:start] + each + partly[end:], start) for each in reversed(items)]
    return found


def _find_braces(text: str, position: int) -> tuple[int, int, Sequence[str]] | None:
    """Return the begin, the end and the items of the next pair of braces. None if there is none."""
    depth, start, item = 0, 0, 0
    items: list[str] = []
    for special in _BRACE.finditer(text, position):
        match special[0]:
            case "{":
                depth += 1
                if depth == 1:
                    start, item = special.start(), special.end()
            case "," if depth == 1:
                items.append(text[item : special.start()])
                item = special.end()
            case "}" if depth == 1:
                return start, special.end(), [*items, text[item : special.start()]]
            case "}" if depth:
                depth -= 1
    return None
