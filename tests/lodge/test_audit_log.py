"""Where the audit log of a command goes, and what it masks."""

import json
from pathlib import Path

import pytest

from lodge.audit_log import audit_destination, open_audit_log
from lodge.command_errors import StartError
from lodge.settings import ReapSettings, ServeSettings


@pytest.mark.parametrize(
    ("given", "destination"),
    [
        ({}, None),
        ({"audit_log": "none"}, None),
        ({"audit_log": "-"}, "-"),
        ({"audit_log": "/audit.log"}, "/audit.log"),
        ({"authentication": [{"kind": "kubernetes", "audiences": ["lodge"]}]}, "-"),
        ({"authentication": [{"kind": "kubernetes", "audiences": ["lodge"]}], "audit_log": "none"}, None),
    ],
)
def test_destination_depends_on_authentication(given: dict[str, object], destination: str | None) -> None:
    assert audit_destination(ServeSettings.model_validate(given)) == destination


def test_reaper_has_no_audit_log_by_default() -> None:
    assert audit_destination(ReapSettings()) is None


def test_unusable_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    settings = ReapSettings.model_validate({"audit_log": str(tmp_path / "missing" / "audit.log")})
    with (
        pytest.raises(
            StartError, match=r"The audit log \[.*missing/audit.log\] cannot be opened: No such file.*--audit-log"
        ),
        open_audit_log(settings),
    ):
        pass


def test_secrets_in_texts_are_masked(tmp_path: Path) -> None:
    settings = ReapSettings.model_validate({"audit_log": str(tmp_path / "audit.log")})
    with open_audit_log(settings) as log:
        text = "create table t options (password='abc', url 'x;token=def')"
        log.write("statement_finished", {"query_text": text, "tables": ["secret_plans"], "method": "tokens", "rows": 3})
    event = json.loads((tmp_path / "audit.log").read_text())
    assert "abc" not in event["query_text"]
    assert "def" not in event["query_text"]
    assert (event["tables"], event["method"], event["rows"]) == (["secret_plans"], "tokens", 3)
