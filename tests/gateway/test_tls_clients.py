"""PySpark over TLS, while the certificate changes."""

import json
import os
import subprocess
import sys
import urllib.request

import pytest
from cryptography import x509

from tests.cluster.ports import free_port
from tests.conftest import end
from tests.identity.certificates import CertificateAuthority

pytestmark = pytest.mark.slow

EXPIRY_METRIC = "lodge_gateway_certificate_expiry_timestamp_seconds "
CLIENT = """
import sys
from pyspark.sql.connect.session import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).create()
spark.sql("create temporary table t as select 1 a").collect()
count = 0
print("connected", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        assert spark.table("t").collect()[0].a == 1
        count += 1
    print(count, flush=True)
spark.stop()
"""


def client(address, ca):
    environment = os.environ | {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(ca)}
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT, address],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def query(process, count):
    process.stdin.write(f"{count}\n")
    return int(process.stdout.readline())


def test_pyspark_works_over_tls_while_the_certificate_changes(start_lodge, spark_server, tmp_path, wait_until):
    authority = CertificateAuthority(tmp_path)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def replace():
        issued = authority.server()
        certificate.write_bytes(issued.certificate.read_bytes())
        key.write_bytes(issued.key.read_bytes())

    replace()
    tls = json.dumps({"certificate": str(certificate), "key": str(key)})
    metrics = f"127.0.0.1:{free_port()}"
    gateway = start_lodge("--tls", tls, "--metrics-listen", metrics, backend=spark_server)
    assert gateway.address.endswith("/;use_ssl=true")
    early = client(gateway.address, authority.certificate)
    clients = [early]
    try:
        assert early.stdout.readline() == "connected\n"
        for change in (1, 2):
            replace()
            wait_until(
                lambda change=change: gateway.log().count("tls_certificate_reloaded") >= change, "the change is seen"
            )
            assert query(early, 2) == 2 * change
        expires = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as answer:
            [line] = [line for line in answer.read().decode().splitlines() if line.startswith(EXPIRY_METRIC)]
        assert float(line.removeprefix(EXPIRY_METRIC)) == expires.timestamp()
        late = client(gateway.address, authority.certificate)
        clients.append(late)
        assert late.stdout.readline() == "connected\n"
        for each in clients:
            each.stdin.close()
            assert each.wait(60) == 0
    finally:
        for each in clients:
            end(each)


def test_unusable_certificate_refuses_the_start(start_lodge, spark_server, tmp_path):
    authority = CertificateAuthority(tmp_path)
    tls = json.dumps({"certificate": str(authority.server().certificate), "key": str(authority.server().key)})
    command = [sys.executable, "-m", "lodge", "serve", "--backend", spark_server, "--no-reaper", "--tls", tls]
    command += ["--listen", "127.0.0.1:0", "--workspace", f"dfs.tmp={tmp_path.as_uri()}"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert "of the setting tls.key cannot be used: it is not the key of the certificate" in refused.stderr
