"""SHOW SESSIONS and CLOSE SESSION without authentication: each client sees the sessions of its own user id."""

import uuid

import pytest
from pyspark.errors import PySparkException

USER = "sessions-owner"


def shown(spark):
    return {row.session_id: row for row in spark.sql("show sessions").collect()}


def refused(run, condition):
    with pytest.raises(PySparkException) as raised:
        run()
    assert raised.value.getCondition() == condition, raised.value


def test_client_sees_the_sessions_of_its_own_user(lodge, connect):
    one, two = connect(user_id=USER), connect(user_id=USER)
    other = connect(user_id="sessions-other")
    one.sql("create temporary table t as select 1 a").collect()
    two.sql("select 1").collect()
    rows = shown(one)
    assert {row.principal for row in rows.values()} == {USER}
    assert len(rows) == 2
    own = next(row for row in rows.values() if row.is_current)
    assert own.client_session_id == one.session_id
    assert (own.phase, own.tables, len(own.replicas)) == ("Active", 1, 1)
    assert own.bytes > 0
    assert own.last_active_at >= own.started_at.replace(microsecond=0)
    assert own.backend.startswith("sc://")
    (second,) = [row for row in rows.values() if not row.is_current]
    assert second.client_session_id is None  # without authentication, it would allow to continue the session
    assert not rows.keys() & shown(other).keys()


def test_closed_session_ends_with_its_tables(lodge, connect, wait_until):
    one, two = connect(user_id=USER), connect(user_id=USER)
    before = set(lodge.locations())
    two.sql("create temporary table t as select 1 a").collect()
    (location,) = set(lodge.locations()) - before
    session_id = location.name
    (answer,) = one.sql(f"close session '{session_id}'").collect()
    assert (answer.ok, answer.summary) == (True, f"Session [{session_id}] is closing.")
    wait_until(lambda: session_id not in shown(one), "the end of the session")
    assert not location.exists()
    refused(lambda: two.sql("select * from t").collect(), "INVALID_HANDLE.SESSION_CLOSED")
    refused(lambda: one.sql(f"close session '{session_id}'").collect(), "LODGE_SESSION_NOT_FOUND")


def test_session_of_another_user_does_not_exist(lodge, connect):
    one, other = connect(user_id=USER), connect(user_id="sessions-other")
    other.sql("create temporary table t as select 1 a").collect()
    (row,) = [row for row in shown(other).values() if row.is_current]
    for unknown in (row.session_id, other.session_id, str(uuid.uuid4()), "x", ""):
        refused(lambda unknown=unknown: one.sql(f"close session '{unknown}'").collect(), "LODGE_SESSION_NOT_FOUND")
    assert other.sql("select * from t").count() == 1


def test_own_session_cannot_be_closed(connect):
    spark = connect(user_id=USER)
    for session_id in (spark.session_id, next(key for key, row in shown(spark).items() if row.is_current)):
        refused(lambda session_id=session_id: spark.sql(f"close session '{session_id}'").collect(), "LODGE_OWN_SESSION")


def test_malformed_statements_are_refused(connect):
    spark = connect(user_id=USER)
    for text in ("close session x", "close session 'a' now", "show sessions now"):
        refused(lambda text=text: spark.sql(text).collect(), "PARSE_SYNTAX_ERROR")


def test_other_replica_ends_a_closed_session(start_lodge, lodge, spark_server, connect, wait_until):
    beside = start_lodge(backend=spark_server, beside=lodge)
    one, two = connect(beside, user_id=USER), connect(user_id=USER)
    before = set(lodge.locations())
    two.sql("create temporary table t as select 1 a").collect()
    (location,) = set(lodge.locations()) - before
    one.sql(f"close session '{location.name}'").collect()
    wait_until(lambda: location.name not in shown(one), "the end of the session at the other replica")
    assert not location.exists()
    refused(lambda: two.sql("select * from t").collect(), "INVALID_HANDLE.SESSION_CLOSED")
