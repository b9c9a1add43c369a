"""The jars and settings that Spark needs for ``s3a://``.

Maven fetches the jars in the versions of ``pom.xml`` into the user's cache.
"""

from collections.abc import Mapping
from pathlib import Path

from tests.maven import fetch_jars

_POM = Path(__file__).with_name("pom.xml")
_SPARK_HAS_THESE = "io.netty,org.slf4j,commons-codec,commons-logging,org.apache.httpcomponents"


def jars() -> Path:
    """Return a directory with the jars (20 MB). The first call fetches them.

    Raises:
        MissingMavenError: Maven is not installed.
        CalledProcessError: Maven failed.
    """
    return fetch_jars("s3a", _POM, "-DincludeScope=runtime", f"-DexcludeGroupIds={_SPARK_HAS_THESE}")


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
