"""The jars and settings that Spark needs for ``s3a://``.

Maven fetches the jars in the versions of ``pom.xml`` into the user's cache.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.cache import hold_lock, user_cache

_POM = Path(__file__).with_name("pom.xml")
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_SPARK_HAS_THESE = "io.netty,org.slf4j,commons-codec,commons-logging,org.apache.httpcomponents"


class MissingMavenError(Exception):
    """Maven is not installed."""


def jars() -> Path:
    """Return a directory with the jars (20 MB). The first call fetches them.

    Raises:
        MissingMavenError: Maven is not installed.
        CalledProcessError: Maven failed.
    """
    key = hashlib.sha256(_POM.read_bytes() + _SPARK_HAS_THESE.encode()).hexdigest()[:12]
    target = user_cache() / "s3a" / key
    target.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(target.parent / ".lock"):
        if not target.exists():
            _fetch(target)
    return target


def settings(directory: Path, endpoint: str) -> Mapping[str, str]:
    """Return Spark's settings for an S3 server, without the credentials."""
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
        raise MissingMavenError("Maven is missing and cannot fetch the jars for s3a://. Install Maven.")
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
