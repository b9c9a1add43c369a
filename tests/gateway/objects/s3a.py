"""What Spark needs to read and write ``s3a://``: jars from Maven, pinned by ``pom.xml``, kept in the user's cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.builds import cache_directory

_POM = Path(__file__).with_name("pom.xml")
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_SPARK_HAS_THESE = "io.netty,org.slf4j,commons-codec,commons-logging,org.apache.httpcomponents"


class MissingMavenError(Exception):
    """There is no Maven, which would fetch the jars."""


def jars() -> Path:
    """A directory with the jars; fetched once, 20 MB. Raises: MissingMavenError; CalledProcessError."""
    key = hashlib.sha256(_POM.read_bytes() + _SPARK_HAS_THESE.encode()).hexdigest()[:12]
    target = cache_directory().with_name("s3a") / key
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _fetch(target)
    return target


def settings(directory: Path, endpoint: str) -> Mapping[str, str]:
    """Spark's settings for an S3 server; credentials come from the environment."""
    return {
        "spark.driver.extraClassPath": f"{directory}/*",
        "spark.hadoop.fs.s3a.endpoint": f"http://{endpoint}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
        ),
    }


def _fetch(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingMavenError("Maven is missing, so the jars for s3a:// cannot be fetched: install Maven.")
    partly = target.with_name(f".{target.name}")
    shutil.rmtree(partly, ignore_errors=True)
    options = [f"-DoutputDirectory={partly}", "-DincludeScope=runtime", f"-DexcludeGroupIds={_SPARK_HAS_THESE}"]
    repository = f"-Dmaven.repo.local={target.parent / 'repository'}"
    subprocess.run(
        [maven, "-q", "-B", "-f", _POM, repository, _PLUGIN, *options],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ,
    )
    partly.rename(target)
