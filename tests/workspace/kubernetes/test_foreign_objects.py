"""Objects that name this Lodge but are no records, on a real API server."""

import threading
from typing import Any

from kubernetes.client import CustomObjectsApi

from tests.fixture_types import WaitUntil
from tests.records import a_record
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL, new_object
from workspace.kubernetes.connection import Connection
from workspace.record_store import RecordChanged, RecordsEvent, RecordsListed, SessionRecords
from workspace.records import SessionRecord

KEPT = "example.com/kept"


def test_deletion_of_a_foreign_object_does_not_end_the_watch(
    administrator: Connection, records: SessionRecords, wait_until: WaitUntil
) -> None:
    api, place = CustomObjectsApi(administrator.api_client), (GROUP, API_VERSION, administrator.namespace, PLURAL)
    name = f"{administrator.instance}-foreign"
    api.create_namespaced_custom_object(*place, _foreign(a_record(), administrator.instance, name))
    api.delete_namespaced_custom_object(*place, name)
    told, stop = list[RecordsEvent](), threading.Event()
    thread = threading.Thread(target=lambda: told.extend(records.watch(stop)), daemon=True)
    thread.start()
    try:
        wait_until(lambda: told == [RecordsListed(())], "it is no record while it stays for others' sake")
        api.patch_namespaced_custom_object(*place, name, {"metadata": {"finalizers": []}})
        stored = records.create(a_record())
        wait_until(lambda: told == [RecordsListed(()), RecordChanged(stored)], "the watch continues")
    finally:
        stop.set()
        thread.join(30)


def _foreign(record: SessionRecord, instance: str, name: str) -> dict[str, Any]:
    content = new_object(record, instance, "0123456789abcdef")
    return {**content, "metadata": {"name": name, "finalizers": [KEPT]}}
