"""References by workspace name in SQL text, made into what Spark understands.

Guarantees:

1. Text is never regenerated: only the spans of references are replaced, in place where their length allows, so that
   positions in Spark's messages stay right.
2. A reference that cannot be resolved is an error here; none is left for Spark to understand differently.
3. What is said of a text holds for the texts of ``EXECUTE IMMEDIATE`` in it, and for names in ``IDENTIFIER(…)``.

Source: seed 001, 5.1.8 and 5.1.10; Spark: ``system.session`` qualifies temporary views in table position only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql.connect.proto import relations_pb2

from engine.scan_source import FORMAT
from gateway.errors import GatewayError, SyntaxRefusedError
from gateway.names.embedded_statements import EmbeddedStatements, TextPlace
from gateway.names.name_lookup import ONE_PATH, NameLookup
from gateway.names.scan_relations import NamedScan, StatementScans, generate_alias
from gateway.sql.execute_immediate import find_execute_immediate
from gateway.sql.identifier_clauses import UnknownName, resolve_identifier_clauses
from gateway.sql.lexer import Token, tokenize
from gateway.sql.name_syntax import qualify_with_session, quote_name
from gateway.sql.parameters import NO_PARAMETERS, Parameters, StringEvaluator, string_literal
from gateway.sql.references import Reference, find_references_in_tokens, replace_spans
from gateway.sql.table_options import TableOptionsError
from gateway.sql.using_clause import find_using_clauses, write_options

_BEGINS_STATEMENT = frozenset({"BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT"})


@dataclass(frozen=True, slots=True)
class ResolvedText:
    """A text whose names Spark understands.

    Attributes:
        text: The text.
        scans: What it refers to beside Spark's own tables.
        unused_positions: Of the positional parameters, those that stand in the text no more.
    """

    text: str
    scans: Sequence[relations_pb2.Relation] = ()
    unused_positions: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Replacements:
    """What is found in one text.

    Attributes:
        spans: Start, end, and what stands there instead.
        scans: By workspace and path.
        inner_scans: Those of texts inside of the text.
    """

    spans: list[tuple[int, int, str]] = field(default_factory=list)
    scans: dict[tuple[str, str], NamedScan] = field(default_factory=dict)
    inner_scans: list[relations_pb2.Relation] = field(default_factory=list)


class SqlTextResolver:
    """Resolves SQL texts.

    Args:
        lookup: What names mean.
    """

    def __init__(self, lookup: NameLookup) -> None:
        self._lookup = lookup
        self._hidden = EmbeddedStatements(lookup)

    def resolved(
        self, text: str, place: TextPlace = TextPlace.PLAN, parameters: Parameters = NO_PARAMETERS
    ) -> ResolvedText:
        """The text with its names resolved; the same text if there are none.

        Raises: GatewayError.
        """
        text = self._with_sources(text)
        found = self._tokens(text)
        self._hidden.check(text, found, place, parameters)
        strings = StringEvaluator(found, parameters)
        replacements = _Replacements()
        self._resolve_immediates(text, found, parameters, replacements)
        known, computed = resolve_identifier_clauses(found, parameters)
        self._refuse_computed(computed, text)
        references = find_references_in_tokens(known, self._lookup.workspace_parts)
        if references:
            self._resolve_references(found, references, replacements)
        if replacements.scans or replacements.inner_scans:
            _refuse_view(found)
        spans = sorted(replacements.spans)
        unused = (position for start, end, _ in spans for position in strings.positions_between(start, end))
        scans = [*(scan.relation() for scan in replacements.scans.values()), *replacements.inner_scans]
        return ResolvedText(replace_spans(text, spans), scans, frozenset(unused))

    def _tokens(self, text: str) -> list[Token]:
        return tokenize(text, double_quoted_identifiers=self._lookup.settings.double_quoted_identifiers)

    def _resolve_immediates(
        self, text: str, found: Sequence[Token], parameters: Parameters, replacements: _Replacements
    ) -> None:
        for immediate in find_execute_immediate(found, parameters):
            self._hidden.check_immediate(immediate, text)
            if immediate.text is None:
                continue
            inner = self.resolved(immediate.text, TextPlace.IMMEDIATE, immediate.parameters)
            if inner.unused_positions:
                raise GatewayError(
                    "LODGE_EXECUTE_IMMEDIATE",
                    "0A000",
                    "In the text of EXECUTE IMMEDIATE, a workspace's name cannot come from the parameter [?]. Name the "
                    "parameter: IDENTIFIER(:name) … USING 'dfs.tmp.t' AS name.",
                )
            if inner.text != immediate.text:
                replacements.spans.append((immediate.start, immediate.end, string_literal(inner.text)))
                replacements.inner_scans.extend(inner.scans)

    def _refuse_computed(self, computed: Sequence[UnknownName], text: str) -> None:
        for name in computed:
            if any(self._begins_with_workspace(piece) for piece in name.pieces):
                raise SyntaxRefusedError(
                    "LODGE_IDENTIFIER",
                    "42601",
                    f"[{text[name.start : name.end]}] names a workspace in a way that cannot be seen through (pos "
                    f"{name.start}). Give the name as one string, IDENTIFIER('dfs.tmp.t'), as one parameter, "
                    "IDENTIFIER(:name), or as a name without IDENTIFIER.",
                )

    def _begins_with_workspace(self, text: str) -> bool:
        first = next(iter(tokenize(text)), None)
        return first is not None and first.is_name and self._is_root(first.value)

    def _is_root(self, part: str) -> bool:
        roots = {name.partition(".")[0].casefold() for name in self._lookup.workspaces.by_name}
        return part.casefold() in roots

    def _resolve_references(
        self, found: Sequence[Token], references: Sequence[Reference], replacements: _Replacements
    ) -> None:
        statement = StatementScans(found, references)
        is_plain = found[0].keyword == "ANALYZE"  # whose statistics of columns know no qualifier
        for reference in sorted(references, key=lambda reference: not reference.is_table):
            replaced = self._replacement(reference, statement, replacements.scans, is_plain=is_plain)
            if replaced is not None:
                replacements.spans.append((reference.start, *replaced))

    def _replacement(
        self,
        reference: Reference,
        statement: StatementScans,
        scans: dict[tuple[str, str], NamedScan],
        *,
        is_plain: bool,
    ) -> tuple[int, str] | None:
        """Where what is replaced ends, and what stands there instead."""
        workspace, rest = self._lookup.split(reference)
        key = (workspace.name, rest[0])
        if not reference.is_table and key in scans:
            return reference.end, ".".join([scans[key].alias, *map(quote_name, rest[1:])])
        if len(rest) == 1 or not reference.is_table:
            table = self._lookup.temporary_table(workspace, rest[0])
            if table is not None and reference.is_ambiguous:
                raise GatewayError(
                    "LODGE_AMBIGUOUS_COLUMN",
                    "42702",
                    f"[{'.'.join(reference.parts)}]: the statement also reads something else that is called "
                    f"[{table.name}]. Give the temporary table an alias, and begin the column with that.",
                )
            if table is not None:
                name = ".".join(map(quote_name, (table.name, *rest[1:])))
                return reference.end, qualify_with_session(table.name) if reference.is_table and not is_plain else name
        if not reference.is_table:
            return None
        options, end = statement.options_of(reference)
        if key in scans and scans[key].options != options:
            raise GatewayError(
                "LODGE_SCAN_OPTIONS",
                "0A000",
                f"[{'.'.join(key)}] is in this statement twice, with different options. Give the same to both.",
            )
        if key not in scans:
            scan = self._lookup.scan(workspace, rest, options=options, mentioned=statement.mentioned)
            scans[key] = NamedScan(generate_alias(rest[0], end - reference.start), options, scan)
        return end, scans[key].alias

    def _with_sources(self, text: str) -> str:
        """The text with the options of Lodge's data source made whole, as in ``CREATE VIEW … USING lodge OPTIONS``."""
        if FORMAT not in text.lower():
            return text
        try:
            clauses = find_using_clauses(self._tokens(text), FORMAT)
        except TableOptionsError as error:
            raise SyntaxRefusedError("PARSE_SYNTAX_ERROR", "42601", f"{error} (pos {error.start})") from error
        return replace_spans(text, [(one.start, one.end, self._source_options(one.values)) for one in clauses])

    def _source_options(self, values: Mapping[str, str]) -> str:
        options = dict(values)
        paths = [options.pop(key) for key in list(options) if key.lower() == "path"]
        if len(paths) != 1:
            raise GatewayError("LODGE_SCAN_OPTIONS", "0A000", ONE_PATH)
        workspace, rest = self._lookup.path(paths[0])
        source = self._lookup.scan(workspace, rest, options=options).read.data_source
        if "schema" in map(str.lower, options):
            raise GatewayError(
                "LODGE_SCAN_OPTIONS", "0A000", "Option [schema] is for queries. Put the columns behind the view's name."
            )
        return write_options(source.options)


def _refuse_view(found: Sequence[Token]) -> None:
    """A view keeps its text, and would look for the scan's name long after the statement."""
    for begin in _statement_starts(found):
        words = [token.value.lower() for token in found[begin : begin + 8]]
        if words[:1] in (["create"], ["alter"]) and "view" in words:
            raise GatewayError(
                "LODGE_VIEW_OVER_FILE",
                "0A000",
                "A view cannot be made over a file by its workspace name. Make a temporary table of it, or a view of "
                "the DataFrame: spark.table(...).createOrReplaceTempView(...).",
            )


def _statement_starts(found: Sequence[Token]) -> Iterator[int]:
    yield 0
    for index, token in enumerate(found):
        if token.is_symbol(";") or token.keyword in _BEGINS_STATEMENT:
            yield index + 1
