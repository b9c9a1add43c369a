"""The reference of the audit log, compared with the events that the code writes."""

import ast
import json
from pathlib import Path
from typing import Any

from gateway.auditing.audit import Audit, Caller, Contents, Outcome, Statement
from lodge.serve import reload_details
from reaper.audit import ReaperAudit
from reaper.reports import MassExpiryConfirmed, SessionReaped
from tests.docs.test_interfaces_reference import rows
from tests.records import a_record
from workspace.audit_log import AuditLog
from workspace.record_store import StoredRecord

PAGE = "audit-log.md"
EVENTS = "## Events"


def listed_fields(heading: str) -> dict[str, set[str]]:
    return {cells[0].strip("`"): {name.strip(" `") for name in cells[1].split(",")} for cells in rows(PAGE, heading)}


def names(heading: str) -> set[str]:
    return {name.strip(" `") for cells in rows(PAGE, heading) for name in cells[0].split(",")}


def write_every_event(path: Path) -> dict[str, dict[str, Any]]:
    """Write each event with all its fields, and return the events by their names."""
    log = AuditLog(str(path))
    audit = Audit(log)
    audit.replica = "gateway-1"
    Audit.set_caller(Caller("ada", {"staff"}, "jwt", "ipv4:10.0.0.1:1", "s", "op"))
    session = {"session": "s", "principal": "ada", "location": "l"}
    contents = Contents("SELECT", ["t"], ["/f"], "select 1")
    statement = Statement(Audit.caller(), "query", contents=contents)
    audit.login_failed(reason="expired", peer="ipv4:10.0.0.1:1", kinds=["jwt"])
    audit.session_opened(**session, backend="sc://spark:15002", adopted=False)
    audit.session_closed(**session, reason="released by the client")
    audit.session_expired(**session, reason="idle")
    audit.statement_finished(statement, Outcome("failed", "PARSE_SYNTAX_ERROR"))
    audit.statement_left(statement, reason="the gateway stopped")
    audit.statement_refused(Audit.caller(), condition="LODGE_LIMIT_EXCEEDED", limit="max_statements")
    audit.access_refused(target="file", name="/f", reason="below the temporary workspace")
    audit.administrative_act(
        "drop_table", target="t", owner="bob", details={"sessions": 3, **reload_details(["workspace [a]"])}
    )
    log._lost.add(1)
    audit.access_refused(target="file", name="/f", reason="below the temporary workspace")
    audit.close()
    log.close()
    return {event["event"]: event for event in map(json.loads, path.read_text().splitlines())}


async def test_events_and_fields_are_those_of_the_code(tmp_path: Path) -> None:
    written = write_every_event(tmp_path / "audit.log")
    common, listed = names("## Common fields"), listed_fields(EVENTS)
    assert written.keys() == listed.keys()
    for event, fields in listed.items():
        assert written[event].keys() - common == fields, event
    assert common <= set().union(*(event.keys() for event in written.values()))
    assert names("## Statements") == listed["statement_finished"]


def test_events_of_the_reaper_are_those_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(str(path))
    for reason in ("holders_lost", "deletion_requested", "end_not_finished"):
        ReaperAudit(log).take(SessionReaped(StoredRecord(a_record(), "1"), reason, ()))
    ReaperAudit(log).take(MassExpiryConfirmed("0123456789ab", 3))
    log.close()
    *events, confirmed = [json.loads(line) for line in path.read_text().splitlines()]
    assert confirmed.pop("timestamp")
    assert confirmed == {
        "event": "administrative_act",
        "act": "confirm_mass_expiry",
        "target": "0123456789ab",
        "sessions": 3,
    }
    assert [event["event"] for event in events] == ["session_expired", "session_closed", "session_closed"]
    for event in events:
        assert event.keys() - names("## Common fields") == listed_fields(EVENTS)[event["event"]]


def test_every_method_of_the_audit_is_tested_above() -> None:
    source = ast.parse(Path(__file__).read_text())
    called = {node.attr for node in ast.walk(source) if isinstance(node, ast.Attribute)}
    public = {name for name in vars(Audit) if not name.startswith("_")}
    assert public <= called
