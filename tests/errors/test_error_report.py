"""The line that carries the error of a scan through Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context import ErrorContext
from engine.error_report import ErrorReport, ScanError, find_report, reported_errors
from engine.errors import EngineError, PathNotFoundError, SchemaConflictError, ValueConversionError

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
    find_report(PREFIX + "[LODGE_X] " + text)
    report = find_report(PREFIX + '[LODGE_X] x SQLSTATE: 22000 {"a": "\\ud800"}')
    report.parameters["a"].encode()


def test_every_error_has_a_condition_of_its_package():
    pending = [EngineError]
    while pending:
        error = pending.pop()
        pending += error.__subclasses__()
        assert error.condition.startswith("LODGE_")
        assert len(error.sql_state) == 5
