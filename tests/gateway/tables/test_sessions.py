"""Temporary tables of several sessions, clones, replicas and workspaces."""

import json
import signal
import threading
import uuid

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.connect.session import SparkSession

from tests.cluster.ports import free_port
from tests.gateway.killed_gateways import kill


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def cloned(session):
    """Return a clone of a session. PySpark has no public function for it yet."""
    clone = SparkSession.__new__(SparkSession)
    clone.__dict__.update(session.__dict__)
    clone._client = session.client.clone()
    clone._session_id = clone._client._session_id
    return clone


def test_two_sessions_of_one_user_can_use_same_name(connect):
    one, other = connect(user_id="ida"), connect(user_id="ida")
    for number, session in enumerate((one, other)):
        session.sql(f"create temporary table same as select {number} a").collect()
    assert [rows(session.table("dfs.tmp.same")) for session in (one, other)] == [[(0,)], [(1,)]]
    one.sql("drop table same").collect()
    assert rows(other.table("same")) == [(1,)]


@pytest.mark.slow
def test_clone_has_its_own_tables(lodge, connect, wait_until):
    parent = connect()
    parent.sql("create temporary table plain as select id from range(3)").collect()
    parent.sql("create temporary table parted partition by (k) as select id, id % 2 k from range(4)").collect()
    parent.sql("insert into parted values (9, 9)").collect()
    before = set(lodge.locations())
    clone = cloned(parent)
    try:
        assert len(set(lodge.locations()) - before) == 1
        clone.sql("insert into plain values (77)").collect()
        parent.sql("drop table plain").collect()
        parent.sql("truncate table parted").collect()
        assert rows(clone.table("plain")) == [(0,), (1,), (2,), (77,)]
        assert rows(clone.table("dfs.tmp.parted")) == [(0, 0), (1, 1), (2, 0), (3, 1), (9, 9)]
        assert clone.sql("show temporary tables").count() == 2
        clone.sql("drop table parted").collect()
        assert rows(parent.table("parted")) == []
    finally:
        clone.client.release_session()
        clone.client.close()
    wait_until(lambda: set(lodge.locations()) == before, "the clone's location is removed")


def test_clone_of_session_without_tables_has_none(lodge, connect):
    parent = connect()
    parent.sql("select 1").collect()
    before = set(lodge.locations())
    clone = cloned(parent)
    assert rows(clone.sql("show temporary tables")) == []
    assert set(lodge.locations()) == before
    clone.client.release_session()
    clone.client.close()


@pytest.mark.slow
def test_every_replica_changes_tables_of_a_session(start_lodge, lodge, spark_server, connect):
    replica = start_lodge(backend=spark_server, beside=lodge)
    one = connect(user_id="jan")
    other = connect(replica, session_id=one.session_id, user_id="jan")
    one.sql("create temporary table t as select 0L n").collect()
    other.sql("insert into t values (1)").collect()
    threads = [
        threading.Thread(target=lambda s=session, n=n: s.sql(f"insert into dfs.tmp.t values ({n})").collect())
        for n, session in enumerate((one, other) * 3, start=2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for session in (one, other):
        assert rows(session.table("t")) == [(n,) for n in range(8)]
    other.sql("drop table t").collect()
    with pytest.raises(AnalysisException, match="is not found"):
        one.sql("drop table t")


def test_one_of_two_replicas_creates_the_name(start_lodge, lodge, spark_server, connect):
    replica = start_lodge(backend=spark_server, beside=lodge)
    one = connect(user_id="kim")
    other = connect(replica, session_id=one.session_id, user_id="kim")
    outcomes = []

    def create(session, number):
        try:
            session.sql(f"create temporary table race as select {number} a").collect()
            outcomes.append(number)
        except AnalysisException as error:
            assert error.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"

    threads = [threading.Thread(target=create, args=pair) for pair in ((one, 1), (other, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert rows(one.table("race")) == [(outcomes[0],)]
    assert len(outcomes) == 1


@pytest.mark.slow
def test_new_tables_use_moved_workspace_and_session_end_removes_all_locations(
    start_lodge, spark_server, connect, wait_until, tmp_path
):
    old, new, files = (tmp_path / name for name in ("old", "new", "files"))
    for directory in (old, new, files):
        directory.mkdir()
    config = tmp_path / "lodge.yaml"

    def configure(root):
        config.write_text(json.dumps({"workspace": {"dfs": files.as_uri(), "dfs.tmp": root.as_uri()}}))

    configure(old)
    gateway = start_lodge("--config", str(config), backend=spark_server, workspaces=False)
    spark = connect(gateway)
    spark.sql("create temporary table before as select 1 a").collect()
    configure(new)
    gateway.signal(signal.SIGHUP)
    wait_until(lambda: "configuration_reloaded" in gateway.log(), "the configuration is reloaded")
    spark.sql("create temporary table after as select 2 a").collect()
    spark.sql("insert into before values (3)").collect()
    assert rows(spark.sql("select * from dfs.tmp.before union all select * from after")) == [(1,), (2,), (3,)]
    assert len(locations(old)) == len(locations(new)) == 1
    spark.sql("drop table before").collect()
    assert [list(location.iterdir()) for location in locations(old)] == [[]]
    spark.stop()
    wait_until(lambda: not locations(old) and not locations(new), "both locations are removed")
    deleted = [line for line in gateway.log().splitlines() if "Deleted session temporary location" in line]
    assert len(deleted) == 2


@pytest.mark.slow
def test_reaper_removes_locations_in_former_root_of_dead_gateway(
    start_lodge, spark_server, connect, wait_until, tmp_path
):
    old, new, files = (tmp_path / name for name in ("old", "new", "files"))
    for directory in (old, new, files):
        directory.mkdir()
    config = tmp_path / "lodge.yaml"
    config.write_text(json.dumps({"workspace": {"dfs": files.as_uri(), "dfs.tmp": old.as_uri()}}))
    gateway = start_lodge("--config", str(config), backend=spark_server, workspaces=False)
    spark = connect(gateway)
    spark.sql("create temporary table before as select 1 a").collect()
    config.write_text(json.dumps({"workspace": {"dfs": files.as_uri(), "dfs.tmp": new.as_uri()}}))
    gateway.signal(signal.SIGHUP)
    wait_until(lambda: "configuration_reloaded" in gateway.log(), "the configuration is reloaded")
    spark.sql("create temporary table after as select 2 a").collect()
    kill(gateway, home=old)
    spark.client.close()
    other = f"sc://127.0.0.1:{free_port()}"  # a gateway with the same backend would adopt the session
    start_lodge("--config", str(config), "--grace-period", "1s", backend=other, reaper="--reaper", workspaces=False)
    wait_until(lambda: not locations(old) and not locations(new), "both locations are removed")


def locations(root):
    return [path for path in root.iterdir() if is_uuid(path.name)]


def is_uuid(name):
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
