"""Quotas of tables and bytes, for a session and for a principal."""

import pytest

REACHED = ("LODGE_LIMIT_REACHED", "53400")
WAY_OUT = "Drop tables that you no longer need, or ask the operator for a higher limit."


@pytest.fixture(scope="module")
def limited(start_lodge, spark_server):
    limits = {"session-tables": 3, "session-bytes": "30000", "principal-tables": 4, "principal-bytes": "50000"}
    options = [f"--max-{name}={value}" for name, value in limits.items()]
    return start_lodge(*options, backend=spark_server)


@pytest.fixture(scope="module")
def clients(limited, new_client):
    """Return two sessions of one principal, and one of another."""
    return [new_client(limited, user_id=user) for user in ("ada", "ada", "zoe")]


@pytest.fixture(autouse=True)
def clean(clients):
    yield
    for client in clients:
        client.drop_all()


def fill(client, *names):
    for name in names:
        client.run(f"create temporary table {name} as select 1 a")


def large(rows):
    return f"select id, uuid() u from range({rows})"


def test_session_tables_are_limited(clients):
    one = clients[0]
    fill(one, "a", "b", "c")
    text = "A session can have at most 3 temporary tables"
    one.refuses("create temporary table d as select raise_error('ran') a", *REACHED, text, WAY_OUT)
    one.refuses("create temporary table d (a int)", *REACHED, text)
    assert one.rows("create temporary table if not exists A as select 1 a")[0][0] is False
    one.refuses("create temporary table a as select 1 a", "TABLE_OR_VIEW_ALREADY_EXISTS", "42P07")
    one.run("drop table c")
    fill(one, "d")


@pytest.mark.slow
def test_principal_tables_are_limited(clients):
    one, two, other = clients
    fill(one, "a", "b")
    fill(two, "a", "b")
    text = "A principal can have at most 4 temporary tables in all sessions together"
    two.refuses("create temporary table c as select raise_error('ran') a", *REACHED, text, WAY_OUT)
    assert two.rows("create temporary table if not exists A as select 1 a")[0][0] is False
    fill(other, "a", "b", "c")
    one.run("drop table a")
    fill(two, "c")


@pytest.mark.slow
def test_session_bytes_are_limited(clients):
    one = clients[0]
    fill(one, "a")
    text = "The temporary tables of a session can have at most 30,000 bytes. They already have "
    one.refuses(f"create temporary table b as {large(2000)}", *REACHED, text, WAY_OUT)
    one.refuses("insert into a select id from range(50000)", *REACHED, text)
    one.refuses("insert overwrite a select id from range(50000)", *REACHED, text)
    one.refuses(lambda: one.spark.range(50000).selectExpr("int(id) a").write.insertInto("a"), *REACHED, text)
    assert one.rows("select * from a") == [(1,)]


@pytest.mark.slow
def test_replaced_bytes_do_not_count(clients):
    one = clients[0]
    one.run(f"create temporary table a as {large(400)}")
    (before,) = one.spark.sql("show temporary tables").collect()
    assert before.bytes > 15000
    one.refuses(f"insert into a {large(400)}", *REACHED)
    one.run(f"insert overwrite a {large(400)}")
    one.run("truncate table a")
    one.run(f"insert into a {large(400)}")
    assert one.spark.table("a").count() == 400


@pytest.mark.slow
def test_principal_bytes_are_limited(clients):
    one, two, other = clients
    one.run(f"create temporary table a as {large(400)}")
    one.run("create temporary table b as select id from range(2000)")
    text = (
        "The temporary tables of a principal can have at most 50,000 bytes in all sessions together. They already have "
    )
    two.refuses(f"create temporary table a as {large(600)}", *REACHED, text, WAY_OUT)
    two.run("create temporary table a (id bigint, u string)")
    two.refuses(f"insert into a {large(600)}", *REACHED, text)
    other.run(f"create temporary table a as {large(600)}")
    one.drop_all()
    two.run(f"insert into a {large(600)}")
