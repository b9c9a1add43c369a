"""Finds the texts in a SQL statement that Spark may use as paths.

Spark reads paths in many places of a statement: in names such as ``parquet.`/a` ``, after keywords such as
``LOCATION``, in options, and in the raw text of ``ADD JAR``. This module finds these places without parsing the
statement, so the result can contain texts that are not paths. Strings that contain SQL themselves are searched too,
because ``EXECUTE IMMEDIATE`` can run them.

Guarantees:

1. The dialect of the session does not need to be known: texts are found as each dialect reads them.
2. A ``${variable}`` in a text is replaced with :data:`UNKNOWN`. An expression as the value of a path option is unknown.
3. Spark replaces variables before it reads the statement, so their values can be keywords, quotation marks and ends of
   comments. In a statement with a variable, every word and every literal therefore counts as a path, in parts that do
   not contain a variable.

Not guaranteed: paths that Spark computes are not found, for example ``IDENTIFIER(f(x))`` and
``EXECUTE IMMEDIATE f(x)``.

Source: [spark-sql-grammar].
"""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.json_texts import read_json
from gateway.authorization.path_fence import MAX_PATH_CHARACTERS, UNKNOWN
from gateway.sql.execute_immediate import find_execute_immediate
from gateway.sql.identifier_clauses import resolve_identifier_clauses
from gateway.sql.lexer import DEFAULT_DIALECT, VARIABLE_START, Dialect, Token, TokenKind, tokenize
from gateway.sql.parameters import Parameters, StringEvaluator
from gateway.sql.piecewise_search import end_of_run, is_found, may_contain
from gateway.sql.string_literals import read_string

_QUOTED_PART = r"\.\s*(?:[`\"]|/\*|--|\Z)"
_KEYWORDS = (
    *("add", "archives?", "copy", "directory", "files?", "identifier", "immediate", "inpath", "jars?", "location"),
    *("list_files", "options", "path", "properties", "dbproperties", "read_files", "refresh", "tblproperties"),
    *("declare", "set"),
)
_MAY_CONTAIN_PATH = re.compile(
    rf"{_QUOTED_PART}|\b(?:{'|'.join(_KEYWORDS)})\b|\bwith\b\s*(?:\(|/\*|--|\Z)|://|\$\{{|(?-i:[\u0131\u017f])",
    re.IGNORECASE,
)
_NEEDED_WORDS = (
    *("`", '"', "://", VARIABLE_START, "\u0131", "\u017f", "add", "archive", "copy", "declare", "directory", "file"),
    *("identifier", "immediate", "inpath", "jar", "location", "options"),
    *("path", "properties", "refresh", "set", "with"),
)
_BEFORE_PATH = frozenset(
    {
        *("ARCHIVE", "ARCHIVES", "DIRECTORY", "FILE", "FILES", "INPATH", "JAR", "JARS", "LOCATION", "PATH", "REFRESH"),
    }
)
_FIRST_KEYS = {
    **dict.fromkeys(("OPTIONS", "TBLPROPERTIES", "PROPERTIES", "DBPROPERTIES", "WITH"), ""),
    **dict.fromkeys(("READ_FILES", "LIST_FILES"), "path"),
}
_MAX_KEY_CHARACTERS = 100
_RAW_STATEMENTS = frozenset({"ADD", "REFRESH", "SET", "COPY"})
_PATH_KEY = re.compile(r"path|dir|location|file|archive|uri|url|checkpoint|warehouse", re.IGNORECASE)
_FILE_SYSTEM_KEY = re.compile(r"\bfs\.", re.IGNORECASE)
_LIST_KEY = "paths"
_NOT_PATH_KEY = re.compile(r"glob|lookup|files|format", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_SEPARATORS = re.compile(r"[\s,;='\"]*+")
_RAW_WORD = re.compile(r"[^\s,;='\"]*+")
_WORD_BESIDE_VARIABLE = re.compile(r"[^\s,;='\"`()]++")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_MOST_SLASHES_OF_OPERATOR = 2
_DIALECTS = (DEFAULT_DIALECT, Dialect(double_quoted_identifiers=True))
_AS_WRITTEN = Dialect(escaped_string_literals=True)
_SIMPLE_VALUES = frozenset({TokenKind.STRING, TokenKind.NUMBER, TokenKind.QUOTED})
_CONSTANTS = frozenset({"TRUE", "FALSE", "NULL"})
_MAX_DEPTH = 3
_MAX_QUALIFIER = 16
_MAX_ADJACENT = 100
_ADDED_PER_CHARACTER = 4
"""How often the paths of all statements ``ADD`` may repeat a text. Each path may reach to the end of the text."""

_WHITESPACE = re.compile(r"\s*+")


class TextUse(enum.Enum):
    """How certain it is that a text is a path.

    Attributes:
        PATH: Spark uses the text as a path.
        TABLE: Like PATH, in a relation that has the form of a scan of a permanent table.
        ADDED: Like PATH, in a statement that may add an archive, whose directory follows a ``#``.
        VALUE: The text is a value of a setting, an option or a parameter, which may be a path.
    """

    PATH = enum.auto()
    TABLE = enum.auto()
    ADDED = enum.auto()
    VALUE = enum.auto()


@dataclass(frozen=True, slots=True)
class PathText:
    """A text that may be a path.

    Attributes:
        text: The text, without quotes.
        use: How Spark uses the text.
        qualifier: The parts of the name before the text, if the text is the last part of a name.
    """

    text: str
    use: TextUse
    qualifier: tuple[str, ...] = ()


def may_contain_path(sql: str) -> bool:
    """Return whether a SQL text may contain a path. This check is fast."""
    return may_contain(_NEEDED_WORDS, sql) and is_found(_MAY_CONTAIN_PATH, sql)


def use_of_option(key: str) -> TextUse:
    """Return how Spark uses the value of an option."""
    if _PATH_KEY.search(key) and not _NOT_PATH_KEY.search(key):
        return TextUse.PATH
    return use_of_setting(key)


def use_of_setting(key: str) -> TextUse:
    """Return how Spark uses the value of a setting. Settings of file systems can mount a directory elsewhere."""
    return TextUse.PATH if is_found(_FILE_SYSTEM_KEY, key) else TextUse.VALUE


def read_option(key: str, value: str) -> Iterator[PathText]:
    """Yield the paths in the value of an option. The option ``paths`` contains a JSON array of paths."""
    use = use_of_option(key)
    yield PathText(value, use)
    if key.lower() != _LIST_KEY:
        return
    try:
        items = read_json(value)
    except ValueError:
        items = None
    for item in items if isinstance(items, list) else (UNKNOWN,):
        yield PathText(item if isinstance(item, str) else UNKNOWN, use)


def find_path_texts(sql: str, parameters: Parameters | None = None) -> Iterator[PathText]:
    """Yield all texts of a SQL statement that may be paths.

    Args:
        sql: The SQL text.
        parameters: The parameters of the text. None if it has none.

    Raises:
        GatewayError: If the text has too many tokens, or its values have too many characters.
    """
    return _find(sql, Parameters.of_statement(sql) if parameters is None else parameters, 0, set())


def find_name_paths(name: str) -> Iterator[PathText]:
    """Yield the texts in a name such as ``parquet.`/a` `` that may be paths."""
    if not any(character in name for character in "`\"'/"):
        return
    for dialect in _DIALECTS if '"' in name else _DIALECTS[:1]:
        known, unknown = resolve_identifier_clauses(tokenize(name, dialect), Parameters.of_statement(name), dialect)
        yield from _find_in_names(known)
        if unknown:
            yield PathText(UNKNOWN, TextUse.PATH)


def _find(sql: str, parameters: Parameters, depth: int, seen: set[str]) -> Iterator[PathText]:
    has_parameters = parameters.named or parameters.positional
    if (sql in seen and not has_parameters) or not may_contain_path(sql):
        return
    seen.add(sql)
    if depth > _MAX_DEPTH:
        yield PathText(UNKNOWN, TextUse.PATH)
        return
    for value in (*parameters.named.values(), *parameters.positional):
        if value is not None:
            yield PathText(_replace_variables(value), TextUse.VALUE)
    for dialect in _DIALECTS if '"' in sql else _DIALECTS[:1]:
        tokens = tokenize(sql, dialect)
        known, unknown = resolve_identifier_clauses(tokens, parameters, dialect)
        yield from _find_in_names(known)
        if parameters.has_unknown and unknown:
            yield PathText(UNKNOWN, TextUse.PATH)
        strings = StringEvaluator(tokens, parameters, dialect)
        yield from _find_after_keywords(tokens, strings, has_parameters=parameters.has_any)
        yield from _find_strings(tokens)
        yield from _find_computed_options(tokens, strings)
        yield from _find_raw_texts(sql, tokens)
        if tokens and VARIABLE_START in sql:
            yield from _find_beside_variables(sql, tokens)
        inner = [(text, parameters.of_inner_text()) for clause in unknown for text in clause.strings]
        immediates = find_execute_immediate(tokens, parameters, dialect)
        if parameters.has_unknown and any(each.text is None for each in immediates):
            yield PathText(UNKNOWN, TextUse.PATH)
        inner += [(each.text, each.parameters) for each in immediates if each.text is not None]
        read = (text for token in tokens for text in _read(token))
        inner += [(text, parameters.of_inner_text()) for text in read if "/" in text or "\\" in text]
        for text, own in inner:
            yield from _find(text, own, depth + 1, seen)


def _find_in_names(tokens: Sequence[Token]) -> Iterator[PathText]:
    """Yield the quoted parts of names that follow a dot, and the unquoted URIs."""
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.URI:
            yield PathText(_replace_variables(token.value), TextUse.PATH)
        if token.kind is not TokenKind.QUOTED or index < 2 or not tokens[index - 1].is_symbol("."):
            continue
        first = index
        while (
            first >= max(2, index - _MAX_QUALIFIER) and tokens[first - 1].is_symbol(".") and tokens[first - 2].is_name
        ):
            first -= 2
        qualifier = tuple(each.value for each in tokens[first:index:2])
        yield PathText(_replace_variables(token.value), TextUse.PATH, qualifier)


def _find_after_keywords(
    tokens: Sequence[Token], evaluator: StringEvaluator, *, has_parameters: bool
) -> Iterator[PathText]:
    """Yield the strings and parameters after keywords such as ``LOCATION``. Spark joins adjacent ones."""
    end = 0
    for begin, (keyword, first) in enumerate(pairwise(tokens), start=1):
        if keyword.keyword not in _BEFORE_PATH or begin < end:  # before the end, it is the name of a parameter
            continue
        end = _end_of_text(tokens, begin)
        if all(token.kind is TokenKind.STRING for token in tokens[begin:end]):
            if first.kind is TokenKind.STRING:
                yield from (PathText(text, TextUse.PATH) for text in _read_adjacent(tokens, begin))
            continue
        text = evaluator.evaluate(tokens[begin:end])
        if text is not None:
            yield PathText(_replace_variables(text), TextUse.PATH)
        elif has_parameters:
            yield PathText(UNKNOWN, TextUse.PATH)


def _end_of_text(tokens: Sequence[Token], begin: int) -> int:
    """Return the index after adjacent string literals and parameters."""
    end = begin
    while end < len(tokens):
        if tokens[end].kind is TokenKind.STRING or tokens[end].is_symbol("?"):
            end += 1
        elif tokens[end].is_symbol(":") and end + 1 < len(tokens) and tokens[end + 1].kind is TokenKind.WORD:
            end += 2
        else:
            break
    return end


def _find_strings(tokens: Sequence[Token]) -> Iterator[PathText]:
    """Yield the strings in option lists."""
    keys: list[str | None] = []  # for each open bracket: the key of the current option, or None outside option lists
    read_to = 0  # the index after the strings that were read
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            outer = keys[-1] if keys else None
            keys.append(_FIRST_KEYS.get(tokens[index - 1].keyword if index else "", outer))
        elif token.is_symbol(")"):
            del keys[-1:]
        elif keys and (key := keys[-1]) is not None:
            if token.is_symbol(","):
                keys[-1] = ""
            elif token.kind is TokenKind.STRING and index >= read_to:
                texts, read_to = _read_adjacent(tokens, index), _end_of_strings(tokens, index)
                if key:
                    yield from (found for text in texts for found in read_option(key, text))
                elif read_to < len(tokens) and tokens[read_to].is_symbol("="):
                    keys[-1] = next(iter(texts), "")[:_MAX_KEY_CHARACTERS]
                else:  # a key and its value, or only one of them
                    yield from (PathText(text, TextUse.VALUE) for text in texts)
                    keys[-1] = (read_string(token.value) or token.value)[:_MAX_KEY_CHARACTERS]
                    read_to = index + 1
            elif not key and token.is_name:
                keys[-1] = token.value[:_MAX_KEY_CHARACTERS]


def _find_computed_options(tokens: Sequence[Token], evaluator: StringEvaluator) -> Iterator[PathText]:
    """Yield the values of path options that are not a single string. Values that only Spark can compute are unknown."""
    lists: list[_Option | None] = []  # for each open bracket: the current option, or None outside option lists
    for index, token in enumerate(tokens):
        option = lists[-1] if lists else None
        if token.is_symbol("("):
            is_options = index > 0 and _FIRST_KEYS.get(tokens[index - 1].keyword) == ""
            if option is not None:
                option.add(token)
            lists.append(_Option() if is_options else None)
        elif token.is_symbol(")"):
            if option is not None:
                yield from option.read(evaluator)
            del lists[-1:]
        elif option is not None and token.is_symbol(","):
            yield from option.read(evaluator)
            lists[-1] = _Option()
        elif option is not None:
            option.add(token)


class _Option:
    """The key and the value of an option that is being read."""

    __slots__ = ("_is_in_key", "_key", "_value")

    def __init__(self) -> None:
        self._key = ""
        self._is_in_key = True
        self._value: list[Token] = []

    def add(self, token: Token) -> None:
        """Add the next token of the option. Tokens in brackets inside the value are left out."""
        if self._is_in_key:
            if token.is_symbol("."):
                self._key += "."
                return
            if (token.is_name or token.kind is TokenKind.STRING) and (not self._key or self._key.endswith(".")):
                text = token.value if token.is_name else read_string(token.value) or token.value
                self._key += text[:_MAX_KEY_CHARACTERS] if len(self._key) < _MAX_KEY_CHARACTERS else ""
                return
            self._is_in_key = False
            if token.is_symbol("="):
                return
        if token.is_symbol("=") and all(each.kind is TokenKind.STRING for each in self._value):
            self._key += "".join(read_string(each.value) or "" for each in self._value)[:_MAX_KEY_CHARACTERS]
            self._value = []
        elif len(self._value) <= _MAX_ADJACENT:
            self._value.append(token)

    def read(self, evaluator: StringEvaluator) -> Iterator[PathText]:
        """Yield the value if it is a path, and not a single string after a key of one part."""
        value = self._value
        if not value or use_of_option(self._key) is not TextUse.PATH:
            return
        if len(value) == 1 and (value[0].kind in _SIMPLE_VALUES or value[0].keyword in _CONSTANTS):
            if value[0].kind is TokenKind.QUOTED:
                yield from read_option(self._key, _replace_variables(value[0].value))
            elif value[0].kind is TokenKind.STRING and "." in self._key:
                yield from (found for each in _read_adjacent(value, 0) for found in read_option(self._key, each))
            return
        text = evaluator.evaluate(value) if len(value) <= _MAX_ADJACENT else None
        yield from read_option(self._key, UNKNOWN if text is None else _replace_variables(text))


def _end_of_strings(tokens: Sequence[Token], begin: int) -> int:
    """Return the index after adjacent string literals."""
    end = begin
    while end < len(tokens) and tokens[end].kind is TokenKind.STRING:
        end += 1
    return end


def _read_adjacent(tokens: Sequence[Token], begin: int) -> Sequence[str]:
    """Return the value of adjacent string literals, in each way in which Spark may read them."""
    literals = [token.value for token in tokens[begin : _end_of_strings(tokens, begin)]]
    values = [
        "".join(read_string(each, dialect) or "" for each in literals) for dialect in (DEFAULT_DIALECT, _AS_WRITTEN)
    ]
    values.append(read_string(literals[0]) or "")
    return [_replace_variables(value) for value in dict.fromkeys(values)]


def _find_raw_texts(sql: str, tokens: Sequence[Token]) -> Iterator[PathText]:
    """Yield the words of statements whose text Spark does not split into tokens, such as ``ADD JAR``.

    Such a text may continue after a semicolon. The words of the first statement of each kind include those of all later
    ones.
    """
    begun = set()
    added_characters, most_characters = 0, _ADDED_PER_CHARACTER * len(sql)
    for index, token in enumerate(tokens):
        if token.keyword not in _RAW_STATEMENTS or not _begins_statement(tokens, index):
            continue
        kind = tokens[index + 1] if token.keyword == "ADD" and index + 1 < len(tokens) else None
        if kind is not None and kind.is_name and added_characters <= most_characters:
            for added in _find_added_path(sql, kind.end):
                added_characters += len(added.text)
                yield added
            if added_characters > most_characters:
                yield PathText(UNKNOWN, TextUse.PATH)
        if token.keyword in begun:
            continue
        begun.add(token.keyword)
        if token.keyword == "SET":
            use = use_of_setting(sql[token.end :])
        else:
            use = TextUse.ADDED if token.keyword == "ADD" else TextUse.PATH
        for word in _raw_words(sql, token.end):
            is_archive = use is TextUse.ADDED and "#" in word
            if is_archive or "/" in word or "\\" in word or ".." in word or VARIABLE_START in word:
                yield PathText(_replace_variables(word), use)


def _raw_words(sql: str, position: int) -> Iterator[str]:
    while position < len(sql):
        begin = end_of_run(_SEPARATORS, sql, position)
        position = end_of_run(_RAW_WORD, sql, begin)
        yield sql[begin:position]


def _find_beside_variables(sql: str, tokens: Sequence[Token]) -> Iterator[PathText]:
    """Yield the words and literals of a text with variables, in parts that do not contain a variable."""
    use = TextUse.VALUE if tokens[0].keyword == "SET" else TextUse.PATH
    for part in _parts_beside_variables(sql):
        for match in _WORD_BESIDE_VARIABLE.finditer(part):
            word = match.group()
            is_operator = word.count("/") <= _MOST_SLASHES_OF_OPERATOR and not _LETTER_OR_DIGIT.search(word)
            if ("/" in word or "\\" in word) and not is_operator:
                yield PathText(word, use)
                if "\\" in word:
                    yield PathText(read_string(f"'{word}'") or "", use)
    for token in tokens:
        for text in [token.value] if token.kind is TokenKind.QUOTED else _read(token):
            yield from (PathText(part, use) for part in _parts_beside_variables(text) if "/" in part)


def _parts_beside_variables(text: str) -> Sequence[str]:
    return _replace_variables(text).split(UNKNOWN)


def _find_added_path(sql: str, kind_end: int) -> Iterator[PathText]:
    """Yield the text after the kind of file in ``ADD`` as one path with blanks.

    The path ends at a semicolon, and also at the end of the whole text if it can be a path then.
    """
    begin = end_of_run(_WHITESPACE, sql, kind_end)
    if begin == len(sql):
        return
    semicolon = sql.find(";", begin, begin + MAX_PATH_CHARACTERS)
    ends = [semicolon] if semicolon >= 0 else []
    if len(sql) - begin <= MAX_PATH_CHARACTERS or not ends:
        ends.append(len(sql))
    for end in ends:
        text = sql[begin : min(end, begin + MAX_PATH_CHARACTERS + 1)]
        if len(text) <= MAX_PATH_CHARACTERS:  # a longer text is refused for its length
            text = text.strip(" ;'\"")
        if text:
            yield PathText(_replace_variables(text), TextUse.ADDED)


def _begins_statement(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token may be the first token of a statement, also inside a script."""
    previous = tokens[index - 1] if index else None
    if previous is None or previous.is_symbol(";"):
        return True
    return previous.keyword in {"BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT"}


def _read(token: Token) -> Sequence[str]:
    if token.kind is not TokenKind.STRING:
        return ()
    return [value for value in {read_string(token.value), read_string(token.value, _AS_WRITTEN)} if value is not None]


def _replace_variables(text: str) -> str:
    end = text.rfind("}") + 1  # the search for a bracket that does not exist would take quadratic time
    return _VARIABLE.sub(UNKNOWN, text[:end]) + text[end:] if VARIABLE_START in text else text
