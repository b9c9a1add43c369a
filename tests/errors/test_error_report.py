"""The line that carries the error of a scan through Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context import ErrorContext
from engine.error_report import ErrorReport, ScanError, find_report, reported_errors
from engine.errors import (
    CONDITIONS,
    EngineError,
    PathNotFoundError,
    SchemaConflictError,
    UnreadableFileError,
    ValueConversionError,
)
from engine.readers.reader_errors import one_line
from engine.spark import FilteringScanReader

PREFIX = "engine.error_report.ScanError: "
NASTY = "a SQLSTATE: 22000 {}.csv' \n" + PREFIX + "[LODGE_FAKE] x SQLSTATE: 00000 {}"


def line(error):
    return f"{PREFIX}{ScanError(error)}"


def test_report_is_found_with_all_fields():
    conflict = SchemaConflictError("a", offered="int64", promised="struct", context=ErrorContext("dfs", "x", "line 2"))
    report = find_report(f"Job aborted:\n{line(conflict)}")
    assert report == ErrorReport(
        "LODGE_TYPE_CONFLICT",
        "42804",
        str(conflict),
        {
            "file": "x",
            "workspace": "dfs",
            "position": "line 2",
            "column": "a",
            "foundType": "int64",
            "expectedType": "struct",
        },
    )


def test_report_keeps_the_traceback_of_its_cause():
    with pytest.raises(ScanError) as raised, reported_errors():
        raise PathNotFoundError("dfs", "gone.csv")
    assert "Traceback (most recent call last)" in str(raised.value)
    assert str(raised.value).splitlines()[0].startswith("[LODGE_FILE_NOT_FOUND] 'gone.csv' in workspace 'dfs'")


def test_unexpected_error_is_reported_without_its_text():
    with pytest.raises(ScanError) as raised, reported_errors():
        raise KeyError("/secret/path")
    assert raised.value.report.condition == "LODGE_SCAN_FAILED"
    assert "/secret" not in raised.value.report.text


@given(st.text(max_size=3000), st.text(max_size=3000))
def test_file_contents_cannot_change_a_report(path, value):
    error = ValueConversionError(path, value, value, ErrorContext(value, path, "line 1"))
    text = line(error)
    assert len(text.split("\n")[0]) <= 1700
    report = find_report(text)
    assert (report.condition, report.sql_state) == ("LODGE_INVALID_VALUE", "22018")
    assert report.parameters == error.parameters or len(str(error.parameters)) > 100


@pytest.mark.parametrize("text", [NASTY, "\n" + NASTY])
def test_name_like_a_report_does_not_replace_the_report(text):
    report = find_report(line(PathNotFoundError("dfs", text)))
    assert report.condition == "LODGE_FILE_NOT_FOUND"
    assert report.parameters["workspace"] == "dfs"


def test_report_may_be_truncated_anywhere():
    text = line(ValueConversionError("id", "no", "int32", ErrorContext("dfs", "a.csv", "line 3"))).split("\n")[0]
    for end in range(len(text) + 1):
        report = find_report(text[:end] + "...")
        if end > len(PREFIX) + len("[LODGE_INVALID_VALUE] "):
            assert report.condition == "LODGE_INVALID_VALUE"
            assert report.text[:3] == text.partition("] ")[2][: end - len(PREFIX) - 22][:3] or report.text.endswith(".")


@given(st.text())
def test_any_text_can_be_searched(text):
    find_report(text)
    find_report(PREFIX + "[LODGE_NO_FILES] " + text)
    report = find_report(PREFIX + '[LODGE_NO_FILES] x SQLSTATE: 42KD9 {"a": "\\ud800"}')
    assert report.parameters == {"a": "?"}


@pytest.mark.parametrize(
    "text",
    [
        f"value: {PREFIX}[LODGE_NO_FILES] x SQLSTATE: 42KD9 {{}}",
        f"{PREFIX}[LODGE_FAKE] x SQLSTATE: 42KD9 {{}}",
        "\n" * 16_384 + f"{PREFIX}[LODGE_NO_FILES] x SQLSTATE: 42KD9 {{}}",
    ],
    ids=["inside a line", "unknown condition", "after 16 KiB"],
)
def test_text_that_is_no_report_is_not_found(text):
    assert find_report(text) is None


def test_report_is_found_directly_after_sparks_prefix():
    text = line(PathNotFoundError("dfs", "a.csv"))
    spark = f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {text}"
    assert find_report(spark).condition == "LODGE_FILE_NOT_FOUND"


def test_truncated_report_takes_no_sql_state_from_a_name():
    report = find_report(f"{PREFIX}[LODGE_NO_FILES] 'a SQLSTATE: 08003 {{}}' in workspace...")
    assert (report.sql_state, report.parameters) == ("42KD9", {})


class PluginError(EngineError):
    condition = "LODGE_MY_PLUGIN"
    sql_state = "12345"

    def __init__(self):
        Exception.__init__(self, "no luck")


def test_error_of_a_package_has_a_condition_of_the_engine():
    report = find_report(line(PluginError()))
    assert report == ErrorReport("LODGE_READER_FAILED", "58000", "no luck", {})


@pytest.mark.parametrize("letter", ["d", "ü", "\U0001f600", "\udc80"])
def test_long_path_leaves_the_reason_and_all_parameters(letter):
    error = UnreadableFileError("dfs", f"start/{letter * 2000}/end.csv", "permission denied")
    text = line(error).split("\n")[0]
    report = find_report(text)
    assert report.text.startswith("'start/")
    assert "end.csv' in workspace 'dfs' cannot be read: permission denied." in report.text
    assert report.parameters["workspace"] == "dfs"
    assert report.parameters["file"].startswith("start/")
    assert report.parameters["file"].endswith("/end.csv")
    assert len(text.encode()) <= 1600


def test_many_parameters_are_dropped_rather_than_exceeding_the_line():
    names = {f"{number}{'x' * 200}": "y" for number in range(100)}
    assert find_report(line(EngineError("x", names))) == ErrorReport("LODGE_SCAN_FAILED", "58000", "x", {})


def test_text_without_utf8_encoding_is_replaced():
    assert str(ScanError(EngineError("a\ud800b"))).startswith("[LODGE_SCAN_FAILED] a?b SQLSTATE")
    str(ScanError(EngineError("a\ud800b"))).encode()


def test_error_while_filters_are_pushed_is_reported():
    with pytest.raises(ScanError):
        FilteringScanReader(None, None, is_declared=True).pushFilters(None)


def test_system_error_is_shown_without_its_path():
    assert one_line(PermissionError(13, "Failed to open local file '/srv/a'")) == "Permission denied"
    assert one_line(OSError("Corrupt snappy data.")) == "Corrupt snappy data"


def test_table_lists_exactly_the_conditions_of_the_classes():
    pending, found = [EngineError], set()
    while pending:
        error = pending.pop()
        pending += error.__subclasses__()
        if error.__module__.startswith("engine."):
            assert CONDITIONS[error.condition] == error.sql_state
            found.add(error.condition)
    assert found == set(CONDITIONS)
