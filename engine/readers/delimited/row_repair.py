"""Row-by-row conversion of blocks that pyarrow cannot convert as a whole.

The policies ``ragged`` and ``malformed`` of :class:`DelimitedOptions` are applied only in this module.
"""

import logging
from collections.abc import Sequence

import pyarrow as pa

from engine.errors import ValueConversionError
from engine.readers.delimited.conversion import ColumnPlan, convert_values, failing_values
from engine.readers.delimited.delimited_options import DelimitedOptions, RaggedPolicy
from engine.readers.delimited.rows import ParsedRows
from engine.readers.lines import LinePositions
from engine.readers.malformed_policy import MalformedPolicy
from engine.readers.reader_errors import FormatError

_log = logging.getLogger(__name__)

_Row = Sequence[str | None]


class RowRepair:
    """Applies the policies to the rows of a file, and counts the changes.

    Args:
        plan: The columns.
        options: The policies.
        positions: The positions of lines, for error messages.
    """

    def __init__(self, plan: ColumnPlan, options: DelimitedOptions, positions: LinePositions) -> None:
        self._plan = plan
        self._options = options
        self._positions = positions
        self._skipped = 0
        self._nulled = 0
        self._truncated = 0

    def table(self, parsed: ParsedRows) -> pa.Table:
        """Return the wanted columns of the rows.

        Raises:
            FormatError: If a row is ragged and the policy is to fail.
            ValueConversionError: If a value does not match its type and the policy is to fail.
        """
        rows: list[_Row] = []
        lines: list[int] = []
        for row, line in zip(parsed.rows, parsed.lines, strict=True):
            fitted = self._fit(row, line)
            if fitted is not None:
                rows.append(fitted)
                lines.append(line)
        return self._convert(rows, lines)

    def log_warnings(self) -> None:
        """Log how many rows and values the policies changed, if any."""
        context = self._positions.file.context
        if self._skipped:
            _log.warning("%s%d malformed rows were skipped because of the option 'malformed'.", context, self._skipped)
        if self._nulled:
            _log.warning(
                "%s%d malformed values were set to null because of the option 'malformed'.", context, self._nulled
            )
        if self._truncated:
            _log.warning(
                "%s%d rows had more fields than the header. The extra fields were dropped.", context, self._truncated
            )

    def _fit(self, row: list[str], line: int) -> _Row | None:
        """Return the row with as many fields as the header. Return None to skip the row."""
        wanted, found = len(self._plan.names), len(row)
        if found == wanted:
            return row
        if found < wanted and self._options.ragged is not RaggedPolicy.ERROR:
            return [*row, *[None] * (wanted - found)]
        if found > wanted and self._options.ragged is RaggedPolicy.TRUNCATE:
            self._truncated += 1
            return row[:wanted]
        if self._options.malformed is MalformedPolicy.SKIP:
            self._skipped += 1
            return None
        if self._options.malformed is MalformedPolicy.NULL and found < wanted:
            self._nulled += wanted - found
            return [*row, *[None] * (wanted - found)]
        raise self._ragged_error(line, found, wanted)

    def _ragged_error(self, line: int, found: int, wanted: int) -> FormatError:
        return self._positions.error(
            line,
            f"the row has {found} fields, but the header has {wanted}; correct the file, or choose another policy with "
            "the option 'ragged'",
        )

    def _convert(self, rows: list[_Row], lines: list[int]) -> pa.Table:
        index_of = {name: index for index, name in enumerate(self._plan.names)}
        columns = [[self._read(row[index_of[field.name]]) for row in rows] for field in self._plan.wanted]
        bad_rows: set[int] = set()
        for field, values in zip(self._plan.wanted, columns, strict=True):
            bad_rows.update(self._null_malformed(field, values, lines))
        if bad_rows and self._options.malformed is MalformedPolicy.SKIP:
            self._skipped += len(bad_rows)
            columns = [[value for index, value in enumerate(values) if index not in bad_rows] for values in columns]
        arrays = [
            convert_values(values, field.type, is_empty_null=self._plan.is_empty_null)
            for field, values in zip(self._plan.wanted, columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self._plan.wanted)

    def _read(self, text: str | None) -> str | None:
        return None if text == self._plan.null_value else text

    def _null_malformed(self, field: pa.Field, values: list[str | None], lines: list[int]) -> list[int]:
        """Set the values that do not match the column's type to null, and return their indexes."""
        failing = failing_values(values, field.type)
        if failing and self._options.malformed is MalformedPolicy.FAIL:
            first = failing[0]
            raise ValueConversionError(field.name, values[first], field.type, self._positions.at(lines[first]))
        for index in failing:
            values[index] = None
        if self._options.malformed is MalformedPolicy.NULL:
            self._nulled += len(failing)
        return failing
