"""The definition of ConnectSession: what the API server shows, refuses and stores."""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiException, ApiextensionsV1Api, CustomObjectsApi

from tests.records import a_record
from tests.workspace.kubernetes.conftest import DEFINITION
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, TableUuid
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL, new_object
from workspace.kubernetes.connection import Connection
from workspace.record_changes import add_holder
from workspace.record_store import RecordNotFoundError, SessionRecords
from workspace.records import (
    PendingWrite,
    Phase,
    Refusal,
    Replacement,
    SuspectedRequest,
    TableDefinition,
    TableState,
    TemporaryTable,
)

REFERENCE = DEFINITION.parents[3] / "docs" / "reference" / "connect-sessions.md"
TABLE = TableUuid("00000000-0000-4000-8000-000000000001")
MERGE = "application/merge-patch+json"


class Sessions:
    """ConnectSession objects as the client of an operator handles them."""

    def __init__(self, connection: Connection) -> None:
        self._api = CustomObjectsApi(connection.api_client)
        self._client = connection.api_client
        self._place: Any = {
            "group": GROUP,
            "version": API_VERSION,
            "namespace": connection.namespace,
            "plural": PLURAL,
        }
        self.path = f"/apis/{GROUP}/{API_VERSION}/namespaces/{connection.namespace}/{PLURAL}"

    def create(self, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        return self._api.create_namespaced_custom_object(**self._place, body=body, **options)

    def read(self, name: str) -> dict[str, Any]:
        return self._api.get_namespaced_custom_object(**self._place, name=name)

    def change(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._api.patch_namespaced_custom_object(**self._place, name=name, body=body, _content_type=MERGE)

    def change_status(self, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        return self._api.patch_namespaced_custom_object_status(
            **self._place, name=name, body={"status": status}, _content_type=MERGE
        )

    def delete(self, name: str) -> None:
        self._api.delete_namespaced_custom_object(**self._place, name=name)

    def table(self, name: str) -> dict[str, Any]:
        """Return the table from which kubectl makes its columns."""
        header = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io", "authorization": self._token()}
        url = f"{self._client.configuration.host}{self.path}/{name}"
        response = self._client.call_api("GET", url, header)
        table: dict[str, Any] = json.loads(response.read())
        assert table["kind"] == "Table", table
        return table

    def _token(self) -> str:
        token = self._client.configuration.get_api_key_with_prefix("BearerToken")
        assert token
        return token


@pytest.fixture
def sessions(administrator: Connection) -> Sessions:
    return Sessions(administrator)


@pytest.fixture
def valid(instance: str) -> dict[str, Any]:
    """Return an object with every field, which the API server accepts."""
    definition = TableDefinition(
        "parquet", "now", ("a",), (("a", "b"),), (Replacement(TABLE, ("a=1",)),), "{}", (("a", "b"),)
    )
    write = PendingWrite(
        TABLE,
        "operation",
        ReplicaId("a"),
        partitions=("a=1",),
        former_schema="{}",
        definition=definition,
        is_overtaken=True,
        other_name="u",
    )
    table = TemporaryTable(
        name="t",
        uuid=TABLE,
        state=TableState.READY,
        storage_format="parquet",
        parts=(TABLE,),
        writes=(write,),
        replacements=(Replacement(TABLE, ("a=1",)),),
        schema="{}",
        properties=(("a", "b"),),
    )
    suspect = SuspectedRequest("operation", "digest", 1, Refusal.REQUEST, "loss")
    record = a_record(
        holders=frozenset({ReplicaId("a")}), tables=(table,), writes=(write,), suspects=(suspect,), relations=("o",)
    )
    return deepcopy(dict(new_object(record, instance, "0123456789abcdef")))


def test_kubectl_shows_the_printer_columns(records: SessionRecords, sessions: Sessions, instance: str) -> None:
    table = TemporaryTable("t", TABLE, TableState.READY, "parquet", size_bytes=4096)
    record = a_record(holders=frozenset({ReplicaId("b"), ReplicaId("a")}), tables=(table,))
    records.create(record)
    shown = sessions.table(f"{instance}-{record.name}")
    columns = {column["name"]: column for column in shown["columnDefinitions"]}
    values = dict(zip(columns, shown["rows"][0]["cells"], strict=True))
    usual = [name for name, column in columns.items() if column["priority"] == 0]
    assert usual == ["Name", "Principal", "Backend", "Gateway", "Phase", "Tables", "Bytes", "Age"]
    wide = [name for name, column in columns.items() if column["priority"] > 0]
    assert wide == ["Session-UUID", "Client-Session"]
    assert re.fullmatch(r"\d+s", values.pop("Age"))
    assert values == {
        "Name": f"{instance}-{record.name}",
        "Principal": "ada",
        "Backend": "sc://backend:15002",
        "Gateway": "a,b",
        "Phase": "Active",
        "Tables": 1,
        "Bytes": 4096,
        "Session-UUID": record.session_uuid,
        "Client-Session": "session-1",
    }


def test_definition_is_established_with_its_short_name(administrator: Connection) -> None:
    found = ApiextensionsV1Api(administrator.api_client).read_custom_resource_definition(f"{PLURAL}.{GROUP}")
    assert found.status.accepted_names.short_names == ["csess"]
    conditions = {condition.type: condition.status for condition in found.status.conditions}
    assert conditions["Established"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


def test_definition_describes_and_requires_every_part_of_a_record() -> None:
    spec = yaml.safe_load(DEFINITION.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "spec"
    ]
    parts = [spec["properties"][name]["items"] for name in ("tables", "writes", "answers", "suspects")]
    parts.append(spec["properties"]["writes"]["items"]["properties"]["definition"])
    for part in parts:
        optional = (part["properties"].keys() - part["required"]) & {
            "replacements",
            "partitions",
            "schema",
            "properties",
            "formerSchema",
            "definition",
            "isOvertaken",
            "otherName",
        }
        assert sorted([*part["required"], *optional]) == sorted(part["properties"])
    assert sorted([*spec["required"], "suspects", "relations"]) == sorted(spec["properties"])


def test_reference_describes_every_field() -> None:
    reference = REFERENCE.read_text()
    version = yaml.safe_load(DEFINITION.read_text())["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert re.findall(r"^\| `(\w+)` \|", reference.split("## spec")[1].split("## status")[0], re.MULTILINE) == list(
        spec
    )
    for part in ("tables", "writes", "suspects", "summary"):
        for key in spec[part].get("items", spec[part])["properties"]:
            assert f"`{key}`" in reference
    for column in version["additionalPrinterColumns"]:
        assert column["name"].upper() in reference or column.get("priority")


def test_object_with_every_field_is_stored_unchanged(sessions: Sessions, valid: dict[str, Any]) -> None:
    assert sessions.create(valid, field_validation="Strict")["spec"] == valid["spec"]


WRONG: Mapping[str, tuple[tuple[str | int, ...], Any]] = {
    "a name of another instance": (("metadata", "name"), "other-" + "0" * 40),
    "an unknown format": (("spec", "format"), 4),
    "a revision that is not random": (("spec", "revision"), "next"),
    "a path as the session location": (("spec", "sessionUuid"), "../../etc"),
    "a UUID in upper case": (("spec", "sessionUuid"), "00000000-0000-4000-8000-00000000000A"),
    "an unknown phase": (("spec", "phase"), "Gone"),
    "a principal that is no text": (("spec", "principal"), 7),
    "a principal of a book's length": (("spec", "principal"), "x" * 65_537),
    "a holder that is no replica id": (("spec", "holders"), ["A/b"]),
    "a holder twice": (("spec", "holders"), ["a", "a"]),
    "a number below zero": (("spec", "summary", "bytes"), -1),
    "a table without a name": (("spec", "tables", 0), {"uuid": TABLE}),
    "a table with a path": (("spec", "tables", 0, "parts"), [".."]),
    "an unknown state of a table": (("spec", "tables", 0, "state"), "Lost"),
    "a number of rows that is a text": (("spec", "tables", 0, "rows"), "many"),
    "an option without a value": (("spec", "tables", 0, "options"), [["key"]]),
    "an unknown kind of a write": (("spec", "writes", 0, "kind"), "Truncation"),
    "an answer that is no pair": (("spec", "answers"), [{"operationId": "o", "values": [[1, 2, 3]]}]),
    "null in the place of a list": (("spec", "writes"), None),
}


@pytest.mark.parametrize("what", WRONG)
def test_invalid_values_are_refused(sessions: Sessions, valid: dict[str, Any], what: str) -> None:
    path, value = WRONG[what]
    part: Any = valid
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(ApiException) as refusal:
        sessions.create(valid)
    assert refusal.value.status == 422, refusal.value.body


def test_unknown_fields_are_refused(sessions: Sessions, valid: dict[str, Any]) -> None:
    valid["spec"]["tables"][0]["clusteredBy"] = ["a"]
    with pytest.raises(ApiException, match=r"unknown field.*clusteredBy"):
        sessions.create(valid, field_validation="Strict")


@pytest.mark.parametrize("part", ["instance", "sessionUuid", "principal", "clientSessionId"])
def test_identity_of_a_session_is_immutable(sessions: Sessions, valid: dict[str, Any], part: str) -> None:
    name = sessions.create(valid)["metadata"]["name"]
    other = "00000000-0000-4000-8000-00000000000b"
    with pytest.raises(ApiException, match=r"cannot change|must begin with"):
        sessions.change(name, {"spec": {part: other}})
    assert sessions.read(name)["spec"] == valid["spec"]


def test_ending_session_cannot_become_active(sessions: Sessions, valid: dict[str, Any]) -> None:
    name = sessions.create(valid)["metadata"]["name"]
    sessions.change(name, {"spec": {"phase": "Ending"}})
    with pytest.raises(ApiException, match="cannot become active again"):
        sessions.change(name, {"spec": {"phase": "Active"}})


def test_status_and_labels_keep_the_version(records: SessionRecords, sessions: Sessions, instance: str) -> None:
    stored = records.create(a_record())
    name = f"{instance}-{stored.record.name}"
    condition = {
        "type": "LocationRemoved",
        "status": "False",
        "reason": "StorageUnavailable",
        "message": "the storage does not answer",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    sessions.change_status(name, {"observedGeneration": 1, "conditions": [condition]})
    sessions.change(name, {"metadata": {"labels": {"team": "red"}, "annotations": {"note": "mine"}}})
    assert records.read(stored.record.name) == stored
    after = records.replace(add_holder(stored.record, ReplicaId("a")), stored.version)
    found = sessions.read(name)
    assert found["status"]["conditions"] == [condition], "a change of the record leaves the status alone"
    assert found["metadata"]["labels"]["team"] == "red"
    assert after.version != stored.version
    sessions.change(name, {"status": {"observedGeneration": 7}})
    assert sessions.read(name)["status"]["observedGeneration"] == 1, "only through its own door"


def test_record_without_its_label_is_listed(records: SessionRecords, sessions: Sessions, instance: str) -> None:
    stored = records.create(a_record())
    found = sessions.read(f"{instance}-{stored.record.name}")
    none = dict.fromkeys(found["metadata"]["labels"])
    sessions.change(found["metadata"]["name"], {"metadata": {"labels": none}})
    assert list(records.list()) == [stored]
    assert records.find(stored.record.session_uuid) == stored


def test_kubectl_delete_requests_the_end_and_waits(records: SessionRecords, sessions: Sessions, instance: str) -> None:
    stored = records.create(a_record())
    name = f"{instance}-{stored.record.name}"
    assert not stored.is_deletion_requested
    sessions.delete(name)
    asked = records.read(stored.record.name)
    assert asked.is_deletion_requested
    assert asked.record == stored.record
    assert list(records.list()) == [asked]
    ending = records.replace(replace(asked.record, phase=Phase.ENDING), asked.version)
    assert ending.is_deletion_requested
    records.delete(ending.record.name, ending.version)
    with pytest.raises(ApiException, match="not found"):
        sessions.read(name)


def test_object_kept_by_other_finalizers_is_no_record(
    records: SessionRecords, sessions: Sessions, instance: str
) -> None:
    stored = records.create(a_record())
    name = f"{instance}-{stored.record.name}"
    finalizers = [*sessions.read(name)["metadata"]["finalizers"], "example.org/audit"]
    sessions.change(name, {"metadata": {"finalizers": finalizers}})
    records.delete(stored.record.name, stored.version)
    assert sessions.read(name)["metadata"]["finalizers"] == ["example.org/audit"]
    assert not records.list()
    assert records.find(stored.record.session_uuid) is None
    for question in (
        lambda: records.read(stored.record.name),
        lambda: records.replace(stored.record, stored.version),
        lambda: records.delete(stored.record.name, stored.version),
    ):
        with pytest.raises(RecordNotFoundError):
            question()
    with pytest.raises(Exception, match=r"finalizers \(example.org/audit\) keep"):
        records.create(a_record())
    sessions.change(name, {"metadata": {"finalizers": None}})
    assert records.create(a_record())


def test_record_without_its_finalizer_can_be_deleted(
    records: SessionRecords, sessions: Sessions, instance: str
) -> None:
    stored = records.create(a_record())
    sessions.change(f"{instance}-{stored.record.name}", {"metadata": {"finalizers": None}})
    records.delete(stored.record.name, stored.version)
    assert not records.list()


def test_selectors_of_the_reference_find_sessions(
    records: SessionRecords, administrator: Connection, instance: str
) -> None:
    api = CustomObjectsApi(administrator.api_client)
    place = (GROUP, API_VERSION, administrator.namespace, PLURAL)
    stored = {
        number: records.create(
            a_record(principal=Principal(f"principal-{instance}"), client_session_id=ClientSessionId(str(number)))
        )
        for number in range(3)
    }

    def found(**selector: str) -> set[int]:
        names = {item["metadata"]["name"] for item in api.list_namespaced_custom_object(*place, **selector)["items"]}
        return {number for number, each in stored.items() if f"{instance}-{each.record.name}" in names}

    for number in (1, 2):
        for holder in range(number):
            changed = add_holder(stored[number].record, ReplicaId(f"gateway-{holder}"))
            stored[number] = records.replace(changed, stored[number].version)
    assert found(field_selector=f"spec.principal=principal-{instance}") == {0, 1, 2}
    assert found(label_selector="sparklodge.io/holder=none") == {0}
    assert found(label_selector="sparklodge.io/holder=gateway-0") == {1}
    assert found(label_selector="sparklodge.io/holder in (gateway-0, several)") == {1, 2}
    assert {f".{field}" for field in re.findall(r"`(spec\.\w+)`", _row("fields for field selectors"))} == {
        field["jsonPath"] for field in yaml.safe_load(DEFINITION.read_text())["spec"]["versions"][0]["selectableFields"]
    }


@pytest.mark.parametrize("labels", [None, {"sparklodge.io/holder": None}, {"sparklodge.io/holder": "gateway-x"}])
def test_change_of_the_record_repairs_the_holder_label(
    records: SessionRecords, sessions: Sessions, instance: str, labels: object
) -> None:
    stored = records.create(a_record(holders=frozenset({ReplicaId("gateway-a")})))
    name = f"{instance}-{stored.record.name}"
    before = sessions.read(name)["metadata"]["labels"]
    sessions.change(name, {"metadata": {"labels": labels}})
    assert records.list() == [stored]
    assert records.read(stored.record.name) == stored, "the label is not part of the version"
    assert not records.list_held(ReplicaId("gateway-a"))
    stored = records.replace(stored.record, stored.version)
    assert records.list_held(ReplicaId("gateway-a")) == [stored]
    assert sessions.read(name)["metadata"]["labels"] == before


def test_added_labels_are_kept(records: SessionRecords, sessions: Sessions, instance: str) -> None:
    stored = records.create(a_record())
    name = f"{instance}-{stored.record.name}"
    sessions.change(name, {"metadata": {"labels": {"example.com/team": "a"}}})
    records.replace(add_holder(stored.record, ReplicaId("gateway-a")), stored.version)
    labels = sessions.read(name)["metadata"]["labels"]
    assert labels["example.com/team"] == "a"
    assert labels["sparklodge.io/holder"] == "gateway-a"


def _row(title: str) -> str:
    return next(line for line in REFERENCE.read_text().splitlines() if line.startswith(f"| {title} |"))
