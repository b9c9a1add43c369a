"""Statements and files of each principal belong to its OS user with impersonation.

Source: [temporary-tables §5.1.10]. The OS users exist on every system. Root starts the Spark server of one of them. The
shared Spark server belongs to the gateway's user.
"""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException

OWNER, STRANGER = "daemon", "games"
GATEWAY_USER = pwd.getpwuid(os.geteuid()).pw_name

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


def as_user(user):
    account = pwd.getpwnam(user)
    return ("setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--")


def run_as(user, *command):
    return subprocess.run([*as_user(user), *command], check=False, capture_output=True, text=True, errors="replace")


@pytest.fixture(scope="module")
def places():
    """A directory that other users may pass. pytest's own directories are private."""
    with tempfile.TemporaryDirectory(prefix="lodge-test-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.fixture(scope="module")
def gateway(places, start_lodge, start_spark, spark_server):
    """A gateway with the backends of two users. Principals without a backend may not use the default one."""
    reachable = run_as(OWNER, sys.executable, "-c", "")
    assert reachable.returncode == 0, f"{sys.executable} must be in a directory that every user may read"
    home, tmp, files = (places / name for name in ("home", "tmp", "files"))
    home.mkdir()
    shutil.chown(home, OWNER)
    tmp.mkdir(mode=0o711)
    files.mkdir(mode=0o755)
    backends = {
        OWNER: start_spark(home, as_user(OWNER), {"spark.driver.memory": "1g"}).address,
        GATEWAY_USER: spark_server,
    }
    options = [f"--principal-backend={user}={address}" for user, address in backends.items()]
    return start_lodge("--impersonation", *options, backend=spark_server, places=(tmp, files))


@pytest.fixture
def sessions(connect, gateway):
    return {user: connect(gateway, user_id=user) for user in (OWNER, GATEWAY_USER)}


def test_files_belong_to_the_principals_user_alone(gateway, sessions):
    for user, session in sessions.items():
        before = set(gateway.locations())
        session.sql("create temporary table t partition by (p) as select id, id % 2 p from range(4)").collect()
        session.sql("insert into t values (9, 9)").collect()
        (location,) = set(gateway.locations()) - before
        found = [location, *location.rglob("*")]
        assert {path.owner() for path in found} == {user}
        assert {stat.filemode(path.lstat().st_mode) for path in found} == {"drwx------", "-rw-------"}
        assert session.table("dfs.tmp.t").count() == 5
        for directory in (location, location.parent):
            assert "Permission denied" in run_as(STRANGER, "ls", directory).stderr


def test_other_user_cannot_read_files_by_path_or_name(sessions):
    owner, other = sessions.values()
    owner.sql("create temporary table secret as select 'swordfish' s").collect()
    path = owner.table("secret").inputFiles()[0]
    assert owner.table("secret").collect()[0][0] == "swordfish"
    file = path.removeprefix("file://")
    assert run_as(OWNER, "cat", file).returncode == 0
    assert run_as(STRANGER, "cat", file).returncode != 0, "the permissions of the file, behind the path fence"
    with pytest.raises(PySparkException) as raised:
        other.read.parquet(path).collect()
    assert "swordfish" not in str(raised.value)
    directory = path.rpartition("/")[0]
    for text in (
        "select * from secret",
        "select * from dfs.tmp.secret",
        f"select * from parquet.`{path}`",
        f"select * from text.`{directory}`",
        f"select * from dfs.tmp.`{'/'.join(path.split('/')[-3:])}`",
    ):
        with pytest.raises(PySparkException) as raised:
            other.sql(text).collect()
        assert "swordfish" not in str(raised.value)


def test_session_end_removes_all_files(gateway, connect, wait_until):
    before = set(gateway.locations())
    session = connect(gateway, user_id=OWNER)
    session.sql("create temporary table t as select 1 a").collect()
    session.sql("create temporary table u as select 1 a").collect()
    session.sql("drop table u").collect()
    assert len(set(gateway.locations()) - before) == 1
    session.stop()
    wait_until(lambda: set(gateway.locations()) == before, "the location is deleted")
    assert list((gateway.root / ".lodge" / "trash").iterdir()) == []


def test_principal_without_backend_gets_an_impersonation_error(gateway, connect):
    with pytest.raises(AnalysisException) as raised:
        connect(gateway, user_id=STRANGER).sql("select 1").collect()
    assert raised.value.getCondition() == "LODGE_IMPERSONATION"
    assert raised.value.getSqlState() == "28000"


def test_files_belong_to_the_gateway_user_without_impersonation(lodge, connect):
    before = set(lodge.locations())
    connect(user_id=OWNER).sql("create temporary table mine as select 1 a").collect()
    found = [path for location in set(lodge.locations()) - before for path in location.rglob("*")]
    assert {path.owner() for path in found} == {GATEWAY_USER}
