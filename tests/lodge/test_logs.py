import json
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from lodge.logs import without_secrets

BOTH_KINDS = """
import logging, structlog
from lodge.logs import set_up_logs
set_up_logs("info")
structlog.contextvars.bind_contextvars(session="s1")
structlog.get_logger().info("session_started", token="hidden", principal="ada")
structlog.get_logger().debug("too_low")
logging.getLogger("grpc").warning("refused with Bearer %s", "hidden")
logging.getLogger("grpc").debug("too low")
try:
    password = "hidden"
    raise ValueError("password=hidden")
except ValueError:
    structlog.get_logger().exception("pass_failed")
    logging.getLogger("grpc").exception("failed")
"""

FAILING_THREADS = """
from lodge.logs import set_up_logs
from workspace.background_thread import BackgroundThread
output = set_up_logs("info")
def fail():
    raise ValueError("password=hidden")
for name in ("statuses", "log"):
    thread = BackgroundThread(name, fail)
    thread.start()
    thread.join()
    output.close()
"""


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, "-c", BOTH_KINDS], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_guarantee_1_each_line_is_json_with_event_level_and_utc_time(lines: list[dict[str, Any]]) -> None:
    assert [line["event"] for line in lines] == [
        "session_started",
        "refused with Bearer ***",
        "pass_failed",
        "failed",
    ]
    assert [line["level"] for line in lines] == ["info", "warning", "error", "error"]
    for line in lines:
        assert datetime.fromisoformat(line["timestamp"]).utcoffset() == timedelta(0)


def test_error_that_ends_a_thread_is_logged() -> None:
    done = subprocess.run([sys.executable, "-c", FAILING_THREADS], capture_output=True, text=True, check=True)
    first, *others = done.stderr.splitlines()
    line = json.loads(first)
    assert (line["event"], line["level"], line["thread"]) == ("thread_failed", "error", "statuses")
    assert line["exception"].endswith("ValueError: password=***")
    assert others[0] == "Exception in thread log:", "the thread of the log cannot write its own error"


def test_context_of_a_request_is_in_every_line(lines: list[dict[str, Any]]) -> None:
    assert {line["session"] for line in lines} == {"s1"}


def test_guarantee_2_no_secret_is_in_any_line_or_traceback(lines: list[dict[str, Any]]) -> None:
    assert "hidden" not in json.dumps(lines)
    assert lines[0] | {"timestamp": ""} == {
        "event": "session_started",
        "level": "info",
        "principal": "ada",
        "session": "s1",
        "timestamp": "",
        "token": "***",
    }
    assert "ValueError" in lines[2]["exception"]


@pytest.mark.parametrize(
    "fields",
    [
        {"token": "hidden"},
        {"Authorization": "hidden"},
        {"db_password": b"hidden"},
        {"request": {"headers": {"x-api-key": "hidden"}}},
        {"headers": [{"cookie": ["hidden"]}]},
        {"metadata": (("authorization", "Bearer hidden"), ("x", "y"))},
        {"metadata": [("x-auth-token-bin", b"hidden")]},
        {"backend": "sc://h:1/;token=hidden;x=y"},
        {"error": ValueError("Authorization: Bearer hidden")},
    ],
)
def test_guarantee_2_secrets_are_masked_at_any_depth(fields: dict[str, Any]) -> None:
    event = without_secrets(None, "info", dict(fields))
    assert "hidden" not in str(event)
    assert "***" in str(event)


def test_other_fields_stay_unmasked() -> None:
    fields = {"rows": 3, "seconds": 0.5, "ok": True, "none": None, "names": ["a", "b"], "text": "tokens are fine"}
    assert without_secrets(None, "info", dict(fields)) == fields


@pytest.mark.parametrize(
    "secret",
    [
        f"lodge_{'aB3_-' * 9}"[:49],
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.",
    ],
)
def test_guarantee_2_tokens_of_clients_are_masked_in_any_text(secret: str) -> None:
    event = {"reason": f'the server said {{"token":"{secret}"}}', "items": [f"x {secret} y"]}
    assert without_secrets(None, "info", event) == {"reason": 'the server said {"token":"***"}', "items": ["x *** y"]}


def test_guarantee_4_records_of_libraries_are_limited_for_each_principal() -> None:
    program = """
import logging, structlog
from lodge.logs import set_up_logs
set_up_logs("info")
logger = logging.getLogger("grpc")
for number in range(150):
    logger.error("nobody caused call %d", number)
structlog.contextvars.bind_contextvars(principal="mallory")
for number in range(150):
    logger.error(f"failed call {number}")
structlog.contextvars.bind_contextvars(principal="ada")
logger.error("failed call %d", 1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = Counter(json.loads(line).get("principal") for line in done.stderr.splitlines())
    assert found == {None: 150, "mallory": 100, "ada": 1}
