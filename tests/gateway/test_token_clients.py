"""PySpark with tokens over TLS, as ``sc://host:port/;use_ssl=true;token=…``."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.identity.certificates import CertificateAuthority
from tests.identity.methods import change_token, create_token
from tests.identity.provider import Flaw, IdentityProvider

pytestmark = pytest.mark.slow

CLIENT = """
import json, sys
from pyspark.sql.connect.session import SparkSession

def run(address):
    spark = SparkSession.builder.remote(address).create()
    spark.sql("create temporary table t as select 1 a").collect()
    print(json.dumps(spark.table("t").collect()[0].a), flush=True)
    spark.stop()

for address in sys.argv[1:]:
    try:
        run(address)
    except Exception as error:
        print(json.dumps(str(error)), flush=True)
"""
CLIENT_SECONDS = 120


@pytest.fixture(scope="module")
def guarded(start_lodge, spark_server, tmp_path_factory):
    """A gateway with a token file and an identity provider, behind TLS."""
    directory = tmp_path_factory.mktemp("guarded")
    provider, authority = IdentityProvider(directory), CertificateAuthority(directory)
    files = authority.server()
    tokens = directory / "tokens.yaml"
    token = create_token(tokens, "ada", "--expires", "1h")
    methods = [
        {"kind": "tokens", "file": str(tokens)},
        {
            "kind": "jwt",
            "jwks": provider.jwks_file.as_uri(),
            "issuer": provider.issuer,
            "audience": provider.audience,
            "principal_prefix": "idp:",
        },
    ]
    gateway = start_lodge(
        *("--authentication", json.dumps(methods)),
        *("--tls", json.dumps({"certificate": str(files.certificate), "key": str(files.key)})),
        backend=spark_server,
    )
    return gateway, authority, provider, tokens, token


def connect(guarded, tokens):
    """Run a client that connects with each token, and return the value that it reads, or its error, for each."""
    gateway, authority, *_ = guarded
    environment = os.environ | {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(authority.certificate)}
    addresses = [gateway.address if token is None else f"{gateway.address};token={token}" for token in tokens]
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, *addresses],
        env=environment,
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def connect_until(guarded, token, is_accepted):
    """Connect with a token, until the gateway has read the change of its file, and return the last answer."""
    deadline = time.monotonic() + CLIENT_SECONDS
    while ((answer := connect(guarded, [token])[0]) == 1) is not is_accepted:
        assert time.monotonic() < deadline, answer
    return answer


def principals(guarded):
    lines = [json.loads(line) for line in guarded[0].log().splitlines() if line.startswith("{")]
    return {line["principal"] for line in lines if line["event"] == "session_started"}


def test_token_of_lodge_and_of_the_identity_provider_work(guarded):
    _, _, provider, _, token = guarded
    accepted = [token, *(provider.token("ada", key=key) for key in provider.keys)]
    assert connect(guarded, accepted) == [1] * len(accepted)
    assert principals(guarded) == {"ada", "idp:ada"}
    assert token not in guarded[0].log()


def test_refused_client_reads_the_reason(guarded):
    _, _, provider, tokens, _ = guarded
    revoked = create_token(tokens, "ada")
    assert connect_until(guarded, revoked, is_accepted=True) == 1
    change_token(tokens, revoked)
    expired = provider.flawed_token("ada", Flaw.EXPIRED)
    forged = provider.flawed_token("ada", Flaw.HS256_WITH_PUBLIC_KEY)
    not_valid = "the credentials are not valid"
    refused = {None: "it has no credentials", forged: not_valid, expired: "the credentials have expired"}
    errors = [connect_until(guarded, revoked, is_accepted=False), *connect(guarded, refused)]
    for error, reason in zip(errors, [not_valid, *refused.values()], strict=True):
        assert f"The gateway did not authenticate this call: {reason}." in error
        assert "LODGE_UNAUTHENTICATED" in error
