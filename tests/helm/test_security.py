"""Certificates, secrets and network policies of the chart."""

import base64
import datetime
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.helm.cases import CASES, EVERYTHING
from tests.helm.chart import (
    CERTIFIED,
    CHART,
    MINIMAL,
    Helm,
    Manifest,
    Values,
    configuration,
    find_object,
    of_kind,
    with_values,
)

SECRETS_PATH = "/etc/lodge-secrets"
CERT_MANAGER = ("--api-versions", "cert-manager.io/v1")


def certificate_of(secret: Manifest, key: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"][key]))


def pod_of(manifests: Sequence[Manifest], component: str, instance: str = "lodge") -> Mapping[str, Any]:
    spec: Mapping[str, Any] = find_object(manifests, "Deployment", f"{instance}-{component}")["spec"]["template"][
        "spec"
    ]
    return spec


def secret_files(pod: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the Secret and the key of each file in the volume of secrets."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    sources = volumes.get("secrets", {}).get("projected", {}).get("sources", ())
    return {
        f"{SECRETS_PATH}/{item['path']}": (source["secret"]["name"], item["key"])
        for source in sources
        for item in source["secret"]["items"]
    }


def paths_below(value: object) -> set[str]:
    """Return all texts of a configuration that are paths of files from Secrets."""
    if isinstance(value, Mapping):
        return set().union(*map(paths_below, value.values()), set())
    if isinstance(value, list):
        return set().union(*map(paths_below, value), set())
    return {value} if isinstance(value, str) and value.startswith(SECRETS_PATH) else set()


def test_self_signed_certificate_is_valid_for_the_service(helm: Helm) -> None:
    values = with_values(MINIMAL, {"tls": {"dnsNames": ["lodge.example.com"], "selfSigned": {"days": 100}}})
    manifests = helm.template(values, namespace="here")
    (secret,) = of_kind(manifests, "Secret")
    assert (secret["metadata"]["name"], secret["type"]) == ("lodge-self-signed", "kubernetes.io/tls")
    authority, certificate = certificate_of(secret, "ca.crt"), certificate_of(secret, "tls.crt")
    certificate.verify_directly_issued_by(authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {
        "lodge",
        "lodge.here",
        "lodge.here.svc",
        "lodge.here.svc.cluster.local",
        "localhost",
        "lodge.example.com",
    }
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    validity = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert datetime.timedelta(days=99) < validity < datetime.timedelta(days=101)
    (common_name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert len(str(common_name.value)) <= 64
    files = secret_files(pod_of(manifests, "gateway"))
    assert files == {
        f"{SECRETS_PATH}/tls.crt": ("lodge-self-signed", "tls.crt"),
        f"{SECRETS_PATH}/tls.key": ("lodge-self-signed", "tls.key"),
    }


@pytest.mark.parametrize(
    ("values", "options", "secret", "kinds"),
    [
        ({}, (), "lodge-self-signed", {"Secret"}),
        ({}, CERT_MANAGER, "lodge-tls", {"Certificate", "Issuer"}),
        ({"secretName": "mine"}, CERT_MANAGER, "mine", set()),
        ({"source": "secret", "secretName": "mine"}, (), "mine", set()),
        ({"source": "self-signed"}, CERT_MANAGER, "lodge-self-signed", {"Secret"}),
        ({"source": "cert-manager"}, (), "lodge-tls", {"Certificate", "Issuer"}),
        ({"certManager": {"issuerRef": {"name": "le"}}}, CERT_MANAGER, "lodge-tls", {"Certificate"}),
    ],
)
def test_source_of_the_certificate(
    helm: Helm, values: Values, options: Sequence[str], secret: str, kinds: set[str]
) -> None:
    manifests = helm.template(with_values(MINIMAL, {"tls": values}), *options)
    assert {each["kind"] for each in manifests} & {"Secret", "Certificate", "Issuer"} == kinds
    assert secret_files(pod_of(manifests, "gateway"))[f"{SECRETS_PATH}/tls.key"] == (secret, "tls.key")


def test_cert_manager_issues_from_an_authority_of_the_release(helm: Helm) -> None:
    manifests = helm.template(MINIMAL, *CERT_MANAGER, namespace="here")
    issuers = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "Issuer")}
    authority = find_object(manifests, "Certificate", "lodge-ca")["spec"]
    leaf = find_object(manifests, "Certificate", "lodge-tls")["spec"]
    assert issuers == {"lodge-ca-issuer": {"selfSigned": {}}, "lodge-ca": {"ca": {"secretName": "lodge-ca"}}}
    assert (authority["isCA"], authority["secretName"]) == (True, "lodge-ca")
    assert authority["issuerRef"]["name"] == "lodge-ca-issuer"
    assert (leaf["secretName"], leaf["issuerRef"]["name"]) == ("lodge-tls", "lodge-ca")
    assert {"lodge.here.svc", "localhost"} <= set(leaf["dnsNames"])


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_files_of_the_configuration_are_mounted(helm: Helm, values: Values) -> None:
    manifests = helm.template_all(values)
    content = yaml.safe_load(configuration(manifests))
    mounted = secret_files(pod_of(manifests, "gateway", content["instance"])).keys()
    assert mounted == paths_below(content)
    of_the_reaper = secret_files(pod_of(manifests, "reaper", content["instance"])).keys()
    assert of_the_reaper == {path for path in mounted if path.startswith(f"{SECRETS_PATH}/backend/")}


def test_secrets_are_only_files(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING)
    for component in ("gateway", "reaper"):
        pod = pod_of(manifests, component, "front")
        container = pod["containers"][0]
        assert {entry["name"] for entry in container["env"] if "secretKeyRef" in entry.get("valueFrom", {})} == {
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
        }
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "secrets")
        assert mount == {"name": "secrets", "mountPath": SECRETS_PATH, "readOnly": True}
        (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "secrets")
        assert volume["projected"]["defaultMode"] == 0o440
    assert secret_files(pod_of(manifests, "gateway", "front")) == {
        f"{SECRETS_PATH}/backend/token": ("spark-token", "spark.token"),
        f"{SECRETS_PATH}/backend/ca.crt": ("spark-ca", "ca.pem"),
        f"{SECRETS_PATH}/backend/tls.crt": ("lodge-for-spark", "tls.crt"),
        f"{SECRETS_PATH}/backend/tls.key": ("lodge-for-spark", "tls.key"),
        f"{SECRETS_PATH}/tls.crt": ("certificate-of-lodge", "tls.crt"),
        f"{SECRETS_PATH}/tls.key": ("certificate-of-lodge", "tls.key"),
        f"{SECRETS_PATH}/client-ca.crt": ("clients-of-lodge", "clients.crt"),
        f"{SECRETS_PATH}/tokens.yaml": ("tokens-of-lodge", "tokens"),
    }


def test_files_are_readable_without_a_group(helm: Helm) -> None:
    manifests = helm.template(with_values(CERTIFIED, {"podSecurityContext": {"fsGroup": None}}))
    (volume,) = (volume for volume in pod_of(manifests, "gateway")["volumes"] if volume["name"] == "secrets")
    assert volume["projected"]["defaultMode"] == 0o444


def test_methods_are_in_their_order(helm: Helm) -> None:
    everything = with_values(EVERYTHING, {"authentication": {"kubernetes": {"enabled": True}}})
    methods = yaml.safe_load(configuration(helm.template(everything)))["authentication"]
    assert [method["kind"] for method in methods] == ["tokens", "jwt", "kubernetes", "certificate"]
    assert methods[1]["principal_claim"] == "email"
    assert methods[2]["audiences"] == ["spark", "lodge"]


def test_network_policies_close_all_other_ports(helm: Helm) -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(helm.template(MINIMAL), "NetworkPolicy")}
    assert policies.keys() == {"lodge-gateway", "lodge-reaper"}
    ports = {
        name: [(port["port"], rule.get("from")) for rule in spec["ingress"] for port in rule["ports"]]
        for name, spec in policies.items()
    }
    assert ports == {"lodge-gateway": [("grpc", None), ("metrics", None)], "lodge-reaper": [("metrics", None)]}
    for component in ("gateway", "reaper"):
        spec = policies[f"lodge-{component}"]
        assert spec["policyTypes"] == ["Ingress"]
        deployment = find_object(helm.template(MINIMAL), "Deployment", f"lodge-{component}")
        assert spec["podSelector"] == deployment["spec"]["selector"]


def test_network_policies_name_clients_and_scrapers(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING)
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "NetworkPolicy")}
    clients, metrics = EVERYTHING["networkPolicy"]["clients"], EVERYTHING["networkPolicy"]["metrics"]
    of_clients, of_metrics = policies["front-gateway"]["ingress"]
    assert [port["port"] for port in of_clients["ports"]] == ["grpc", "grpc-mtls"]
    assert (of_clients["from"][:-1], of_metrics["from"]) == (clients, metrics)
    assert policies["front-reaper"]["ingress"] == [of_metrics]


def test_network_policy_closes_only_the_ports_of_spark_connect(helm: Helm) -> None:
    spec = find_object(helm.template(EVERYTHING), "NetworkPolicy", "front-backend")["spec"]
    assert spec["podSelector"] == {"matchLabels": {"app": "spark-connect"}}
    connect, others = spec["ingress"]
    assert [port["port"] for port in connect["ports"]] == [9, 15002]
    selectors = [peer["podSelector"]["matchLabels"] for peer in connect["from"]]
    assert [each["app.kubernetes.io/component"] for each in selectors] == ["gateway", "reaper"]
    assert {each["app.kubernetes.io/instance"] for each in selectors} == {"front"}
    assert "from" not in others
    assert [(port["port"], port["endPort"]) for port in others["ports"]] == [(1, 8), (10, 15001), (15003, 65535)]


def notes(helm: Helm, values: Values) -> str:
    """Return the notes of a release. Their commands must be complete."""
    output = helm.run("install", "lodge", CHART, "--dry-run=client", "--namespace", "here", values=values)
    text = output.partition("NOTES:")[2]
    assert "<no value>" not in text
    commands = "\n".join(line for line in text.splitlines() if line.startswith("  "))
    subprocess.run(["/bin/bash", "-n"], input=commands, text=True, check=True)
    return text


def test_notes_tell_how_to_connect(helm: Helm) -> None:
    text = notes(helm, MINIMAL)
    assert "sc://lodge.here.svc:15002/;use_ssl=true;token=$TOKEN" in text
    assert "kubectl --namespace here create token default --audience lodge" in text
    assert "get secret lodge-self-signed --output 'jsonpath={.data.ca\\.crt}' | base64 --decode > ca.crt" in text
    assert "WARNING" not in text


def test_notes_warn_of_insecure_values(helm: Helm) -> None:
    text = notes(helm, CASES["no authentication"])
    assert "WARNING: authentication.allowUnauthenticated is true" in text
    assert "WARNING: tls.enabled is false. Everybody who sees the traffic can read the data. Set" in text
    assert "sc://lodge.here.svc:15002\n" in text
    without_tls = notes(helm, with_values(MINIMAL, {"tls": {"enabled": False}}))
    assert "can read the data and the tokens of the clients" in without_tls
    assert "PySpark sends a token only through TLS, except to localhost." in without_tls
    assert ".svc:" not in without_tls.partition("PySpark sends")[2].partition("To create")[0]
    both = notes(helm, EVERYTHING)
    assert "Clients with certificates connect to    sc://front.here.svc:8443/;use_ssl=true" in both


@pytest.mark.parametrize("name", ["defaults", "only certificates", "tokens and a certificate of the own"])
def test_commands_of_the_notes_are_complete(helm: Helm, name: str) -> None:
    """Render the values on which the notes depend and which no other test renders."""
    assert notes(helm, CASES[name])


def test_notes_tell_how_to_connect_from_outside(helm: Helm) -> None:
    def text(**gateway: object) -> str:
        return notes(helm, with_values(CERTIFIED, {"gateway": gateway}))

    assert ".status.loadBalancer.ingress[0]" in text(service={"type": "LoadBalancer"})
    assert ".spec.ports[0].nodePort" in text(service={"type": "NodePort"})
    address = "sc://lodge.example.com:443/;use_ssl=true;token=$TOKEN"
    assert address in text(ingress={"enabled": True, "hosts": ["lodge.example.com"]})
    route = {"enabled": True, "hostnames": ["lodge.example.com"], "parentRefs": [{"name": "public"}]}
    assert address in text(route=route)


def test_there_is_no_check_that_cannot_connect(helm: Helm) -> None:
    def has_check(**values: object) -> bool:
        return bool(of_kind(helm.template(with_values(MINIMAL, values)), "Pod"))

    without_tokens = {"kubernetes": {"enabled": False}, "allowUnauthenticated": True}
    assert has_check()
    assert not has_check(tls={"enabled": False})
    assert has_check(tls={"enabled": False}, authentication=without_tokens)
    assert not has_check(authentication={"kubernetes": {"enabled": False}, "tokens": {"secretName": "tokens"}})


def test_check_is_a_client_with_a_token_and_the_authority(helm: Helm) -> None:
    (pod,) = of_kind(helm.template(MINIMAL), "Pod")
    (container,) = pod["spec"]["containers"]
    assert container["args"] == [
        "check",
        "sc://lodge.default.svc:15002/;use_ssl=true",
        "--token-file=/etc/lodge-client/token",
    ]
    (volume,) = (volume["projected"] for volume in pod["spec"]["volumes"] if "projected" in volume)
    token, authority = volume["sources"]
    assert token["serviceAccountToken"]["audience"] == "lodge"
    assert authority["secret"]["name"] == "lodge-self-signed"
    given = {"helmTest": {"token": {"secretName": "mine"}}, "authentication": {"kubernetes": {"enabled": False}}}
    tokens = {"authentication": {"tokens": {"secretName": "tokens"}}}
    (pod,) = of_kind(helm.template(with_values(CERTIFIED, tokens, given)), "Pod")
    assert pod["spec"]["volumes"][1]["projected"]["sources"][0]["secret"]["name"] == "mine"
    nothing = {"helmTest": {"token": {"secretName": ""}}}
    assert not of_kind(helm.template(with_values(CERTIFIED, tokens, given, nothing)), "Pod")


def test_check_reaches_gateways_that_only_some_clients_may_reach(helm: Helm) -> None:
    clients = [{"namespaceSelector": {"matchLabels": {"team": "data"}}}]
    manifests = helm.template(with_values(CERTIFIED, {"networkPolicy": {"clients": clients}}))
    policy = find_object(manifests, "NetworkPolicy", "lodge-gateway")
    (pod,) = of_kind(manifests, "Pod")
    selectors = [peer["podSelector"]["matchLabels"] for peer in policy["spec"]["ingress"][0]["from"][1:]]
    assert [selector.items() <= pod["metadata"]["labels"].items() for selector in selectors] == [True]
