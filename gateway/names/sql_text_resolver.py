"""Resolves references to workspaces in SQL text.

Guarantees:

1. The resolver replaces only the characters of each reference and never generates SQL text from a parsed statement. A
   replacement that is not longer than the reference keeps the length of the text, so that the positions in Spark's
   error messages remain correct.
2. A reference that cannot be resolved raises an error in the gateway. Spark never receives it.
3. The text of ``EXECUTE IMMEDIATE`` and the names in ``IDENTIFIER(…)`` are resolved in the same way.

Source: [temporary-tables §5.1.8, §5.1.10]; in Spark, ``system.session`` qualifies temporary views only where a table is
expected.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql.connect.proto import relations_pb2

from engine.scan_source import FORMAT
from gateway.errors import GatewayError, ParseError
from gateway.names.embedded_statements import EmbeddedStatements, TextPlace, may_embed_statement
from gateway.names.file_metadata import ReadWithMetadata
from gateway.names.name_lookup import ONE_PATH, NameLookup
from gateway.names.scan_relations import NO_OPTIONS, NamedScan, StatementScans, generate_alias
from gateway.scans.scan_signatures import sign_scan
from gateway.sql.execute_immediate import find_execute_immediate
from gateway.sql.identifier_clauses import UnknownName, resolve_identifier_clauses
from gateway.sql.lexer import Token, tokenize
from gateway.sql.name_syntax import qualify_with_session, quote_name
from gateway.sql.parameters import Parameters, StringEvaluator
from gateway.sql.read_only_query import QUERY_KEYWORDS
from gateway.sql.references import Reference, find_references, replace_spans
from gateway.sql.string_literals import write_string
from gateway.sql.table_options import TableOptionsError
from gateway.sql.using_clause import find_using_clauses, write_options
from workspace.name_comparison import comparable_name

_WORDS_OF_NAMES = (FORMAT, "identifier", "\N{LATIN SMALL LETTER DOTLESS I}")
_BEFORE_STATEMENT = frozenset({"BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT"})


@dataclass(frozen=True, slots=True)
class ResolvedText:
    """A SQL text whose names Spark can resolve.

    Attributes:
        text: The resolved SQL text.
        scans: The scan relations to which the text refers.
        unused_positions: The ordinals of the ``?`` parameters that the text no longer contains.
    """

    text: str
    scans: Sequence[relations_pb2.Relation] = ()
    unused_positions: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Replacements:
    """The replacements in one SQL text.

    Attributes:
        spans: The start, end and replacement of each span.
        scans: The scans of the text, by workspace and path.
        inner_scans: The scans of texts in ``EXECUTE IMMEDIATE``.
        with_file_metadata: The temporary tables with the column ``_metadata``, by name.
    """

    spans: list[tuple[int, int, str]] = field(default_factory=list)
    scans: dict[tuple[str, str], NamedScan] = field(default_factory=dict)
    inner_scans: list[relations_pb2.Relation] = field(default_factory=list)
    with_file_metadata: dict[str, NamedScan] = field(default_factory=dict)

    def relations(self) -> Sequence[relations_pb2.Relation]:
        """Return all relations to which the new text refers."""
        named = (*self.scans.values(), *self.with_file_metadata.values())
        return [*(scan.to_relation() for scan in named), *self.inner_scans]


class SqlTextResolver:
    """Resolves the names in SQL texts of one session.

    Args:
        lookup: The names of the session.
        find_names: A function that returns the names that the operations of a DataFrame on the texts mention. None for
            all.
    """

    def __init__(self, lookup: NameLookup, find_names: Callable[[], frozenset[str] | None]) -> None:
        self._lookup = lookup
        self._find_names = find_names
        self._dialect = lookup.settings.dialect
        self._embedded = EmbeddedStatements(lookup)

    def resolve(
        self, text: str, place: TextPlace = TextPlace.PLAN, parameters: Parameters | None = None
    ) -> ResolvedText:
        """Resolve the names in a SQL text.

        Args:
            text: The SQL text.
            place: Where the text occurs.
            parameters: The parameters of the text. None if it has none.

        Returns:
            The resolved text. If there are no names to resolve, its text is the same as the argument.

        Raises:
            GatewayError: If a name cannot be resolved, or the text is not allowed.
        """
        if not self._may_need_changes(text, place):
            return ResolvedText(text)
        parameters = parameters or Parameters.of_statement(text)
        original = text
        text = self._complete_using_clauses(self._lookup.texts.of(text))
        tokens = tokenize(text, self._dialect)
        self._embedded.check(text, tokens, place, parameters)
        replacements = _Replacements()
        self._resolve_immediates(text, tokens, parameters, replacements)
        known, unknown = resolve_identifier_clauses(tokens, parameters, self._dialect)
        self._refuse_unknown(unknown, text)
        references = find_references(known, self._lookup.count_workspace_parts)
        if references:
            self._resolve_references(tokens, references, replacements)
        if place is not TextPlace.IMMEDIATE and original in self._lookup.file_metadata:
            _read_file_metadata(self._lookup.file_metadata[original], replacements)
        if not replacements.spans:
            return ResolvedText(text)
        scans = replacements.relations()
        if scans:
            _refuse_view(tokens)
        spans = sorted(replacements.spans)
        strings = StringEvaluator(tokens, parameters, self._dialect)
        unused = (position for start, end, _ in spans for position in strings.find_positions(start, end))
        return ResolvedText(replace_spans(text, spans), scans, frozenset(unused))

    def _may_need_changes(self, text: str, place: TextPlace) -> bool:
        """Return whether a text may contain a name to resolve or a statement to refuse.

        The check avoids reading the tokens of most long texts, such as an ``INSERT`` of many values.
        """
        lowered = text.lower()
        return (
            any(word in lowered for word in _WORDS_OF_NAMES)
            or self._lookup.mentions_workspace(text)
            or may_embed_statement(text, place)
            or text in self._lookup.file_metadata
        )

    def _resolve_immediates(
        self, text: str, tokens: Sequence[Token], parameters: Parameters, replacements: _Replacements
    ) -> None:
        for immediate in find_execute_immediate(tokens, parameters, self._dialect):
            self._embedded.check_immediate(immediate, text)
            if immediate.text is None:
                continue
            inner = self.resolve(immediate.text, TextPlace.IMMEDIATE, immediate.parameters)
            if inner.unused_positions:
                raise _immediate_refused(
                    "In the text of EXECUTE IMMEDIATE, the name of a workspace cannot be a positional parameter [?]. "
                    "Use a named parameter: IDENTIFIER(:name) … USING 'dfs.tmp.t' AS name."
                )
            if inner.text == immediate.text:
                continue
            literal = write_string(inner.text, self._dialect)
            if literal is None:
                raise _immediate_refused(
                    "The text of EXECUTE IMMEDIATE names a workspace and contains both kinds of quotes, which "
                    "spark.sql.parser.escapedStringLiterals=true does not allow in one string. Run the text with "
                    "spark.sql(text)."
                )
            replacements.spans.append((immediate.start, immediate.end, literal))
            replacements.inner_scans.extend(inner.scans)

    def _refuse_unknown(self, unknown: Sequence[UnknownName], text: str) -> None:
        for name in unknown:
            if any(self._begins_with_workspace(string) for string in name.strings):
                raise GatewayError(
                    "LODGE_IDENTIFIER",
                    "42601",
                    f"[{text[name.start : name.end]}] refers to a workspace in an expression that only Spark can "
                    f"evaluate (pos {name.start}). Specify the name as one string, IDENTIFIER('dfs.tmp.t'), as one "
                    "parameter, IDENTIFIER(:name), or without IDENTIFIER.",
                )

    def _begins_with_workspace(self, text: str) -> bool:
        first = next(iter(tokenize(text, self._dialect)), None)
        roots = {comparable_name(name.partition(".")[0]) for name in self._lookup.workspaces.by_name}
        return first is not None and first.is_name and comparable_name(first.value) in roots

    def _resolve_references(
        self, tokens: Sequence[Token], references: Sequence[Reference], replacements: _Replacements
    ) -> None:
        statement = StatementScans(tokens, references, self._find_names())
        is_plain = tokens[0].keyword == "ANALYZE"  # column statistics do not allow qualified names
        for reference in sorted(references, key=lambda reference: not reference.is_table):
            replaced = self._resolve_reference(reference, statement, replacements.scans, is_plain=is_plain)
            if replaced is not None:
                replacements.spans.append((reference.start, *replaced))

    def _resolve_reference(
        self,
        reference: Reference,
        statement: StatementScans,
        scans: dict[tuple[str, str], NamedScan],
        *,
        is_plain: bool,
    ) -> tuple[int, str] | None:
        """Return the end of the span to replace, and the replacement.

        Return None if the reference does not need to be replaced.
        """
        workspace, rest = self._lookup.split_reference(reference)
        key = (workspace.name, rest[0])
        if not reference.is_table and key in scans:
            return reference.end, ".".join([scans[key].alias, *map(quote_name, rest[1:])])
        if len(rest) == 1 or not reference.is_table:
            table = self._lookup.find_temporary_table(workspace, rest[0])
            if table is not None and reference.is_ambiguous:
                raise GatewayError(
                    "LODGE_AMBIGUOUS_COLUMN",
                    "42702",
                    f"Column [{'.'.join(reference.parts)}] is ambiguous: the statement also reads something else with "
                    f"the name [{table.name}]. Give the temporary table an alias, and qualify the column with it.",
                )
            if table is not None:
                name = ".".join(map(quote_name, (table.name, *rest[1:])))
                return reference.end, qualify_with_session(table.name) if reference.is_table and not is_plain else name
        if not reference.is_table:
            return None
        options, end = statement.find_options(reference)
        if key in scans and scans[key].options != options:
            raise GatewayError(
                "LODGE_SCAN_OPTIONS",
                "22023",
                f"The statement reads [{'.'.join(key)}] twice with different options. Use the same options for both.",
            )
        if key not in scans:
            scan = self._lookup.build_scan(workspace, rest, options=options, mentioned=statement.mentioned)
            scans[key] = NamedScan(generate_alias(rest[0], end - reference.start), options, scan)
        return end, scans[key].alias

    def _complete_using_clauses(self, text: str) -> str:
        """Complete the options in ``USING lodge OPTIONS (…)`` clauses."""
        if FORMAT not in text.lower():
            return text
        try:
            clauses = find_using_clauses(tokenize(text, self._dialect), FORMAT)
        except TableOptionsError as error:
            raise ParseError(f"{error} (pos {error.start})") from error
        if not clauses:
            return text
        if self._dialect.escaped_string_literals:
            raise GatewayError(
                "LODGE_SCAN_OPTIONS",
                "22023",
                f"USING {FORMAT} OPTIONS is not supported while spark.sql.parser.escapedStringLiterals is true. Set it "
                "to false for this statement.",
            )
        return replace_spans(text, [(one.start, one.end, self._complete_options(one.values)) for one in clauses])

    def _complete_options(self, values: Mapping[str, str]) -> str:
        options = dict(values)
        paths = [options.pop(key) for key in list(options) if key.lower() == "path"]
        if len(paths) != 1:
            raise GatewayError("LODGE_SCAN_OPTIONS", "22023", ONE_PATH)
        workspace, rest = self._lookup.parse_path(paths[0])
        source = self._lookup.build_scan(workspace, rest, options=options).read.data_source
        if "schema" in map(str.lower, options):
            raise GatewayError(
                "LODGE_SCAN_OPTIONS",
                "22023",
                "Option [schema] works in queries only. Put the columns after the name of the view.",
            )
        sign_scan(source)
        return write_options(source.options)


def _read_file_metadata(tables: Sequence[ReadWithMetadata], replacements: _Replacements) -> None:
    """Let a query read temporary tables with the column ``_metadata``."""
    starts = {read.start for read, _ in tables}
    replacements.spans[:] = [span for span in replacements.spans if span[0] not in starts]
    known = replacements.with_file_metadata
    for read, rows in tables:
        name = read.table.name
        if name not in known:
            known[name] = NamedScan(generate_alias(name, read.end - read.start), NO_OPTIONS, rows)
        alias = known[name].alias if read.has_alias else f"{known[name].alias} AS {quote_name(name)}"
        replacements.spans.append((read.start, read.end, alias))


def _immediate_refused(text: str) -> GatewayError:
    return GatewayError("LODGE_EXECUTE_IMMEDIATE", "0A000", text)


def _refuse_view(tokens: Sequence[Token]) -> None:
    """Raise a GatewayError if a statement creates a view over a scan, as ``CACHE TABLE … AS`` does.

    A scan exists only until the end of its statement, but a view can exist longer.
    """
    has_query = _find_queries(tokens)
    for begin in _find_statement_starts(tokens):
        words = [token.value.lower() for token in tokens[begin : begin + 8]]
        is_view = words[:1] in (["create"], ["alter"]) and "view" in words
        is_cache = words[:2] == ["cache", "table"] or words[:3] == ["cache", "lazy", "table"]
        if is_view or (is_cache and has_query[min(begin + 3, len(tokens))]):
            raise GatewayError(
                "LODGE_VIEW_OVER_FILE",
                "0A000",
                "A view cannot read a file by its workspace name. Create a temporary table from the file, or a view of "
                "the DataFrame: spark.table(...).createOrReplaceTempView(...).",
            )


def _find_queries(tokens: Sequence[Token]) -> Sequence[bool]:
    """Return for each token, and for the end of the text, whether a query begins from there to the next semicolon."""
    found = [False] * (len(tokens) + 1)
    for index in range(len(tokens) - 1, -1, -1):
        is_end = tokens[index].is_symbol(";")
        found[index] = not is_end and (found[index + 1] or tokens[index].keyword in QUERY_KEYWORDS)
    return found


def _find_statement_starts(tokens: Sequence[Token]) -> Iterator[int]:
    yield 0
    for index, token in enumerate(tokens):
        if token.is_symbol(";") or token.keyword in _BEFORE_STATEMENT:
            yield index + 1
