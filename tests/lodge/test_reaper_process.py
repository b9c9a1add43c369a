"""The reaper process of a gateway has the gateway's settings."""

import argparse
import subprocess
from pathlib import Path

import pytest

from lodge.reaper_process import environment_for
from lodge.settings import ReapSettings, ServeSettings, SettingsOptions
from workspace.workspaces import Workspaces


def test_reaper_process_gets_every_common_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uris = {"dfs.tmp": tmp_path.as_uri()}
    given = {
        "workspace": uris,
        "lease_duration": "1.5s",
        "grace_period": "250ms",
        "records": "kubernetes",
        "kubeconfig": str(tmp_path / "kubeconfig"),
        "namespace": "here",
        "instance": "other",
        "removals": 7,
        "resync_period": "1m",
        "mass_expiry_share": 0.25,
        "mass_expiry_minimum": 3,
        "metrics_listen": "127.0.0.1:9090",
        "reaper_metrics_listen": "127.0.0.1:9091",
        "leader_election": False,
        "audit_log": str(tmp_path / "audit.log"),
        "log_level": "debug",
    }
    serving = ServeSettings.model_validate(given)
    for name, value in environment_for(serving, Workspaces.from_uris(uris, "dfs.tmp")).items():
        monkeypatch.setenv(name, value)
    read = SettingsOptions(ReapSettings, parser := argparse.ArgumentParser()).read(parser.parse_args([]))
    assert {name: getattr(read, name) for name in ReapSettings.model_fields} == {
        name: getattr(serving, name) for name in ReapSettings.model_fields
    } | {"metrics_listen": serving.reaper_metrics_listen}


def test_reaper_process_can_have_very_many_backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses a program with an environment variable of more than 128 KiB."""
    uris = {"dfs.tmp": tmp_path.as_uri()}
    backends = {f"analyst{number}": f"sc://spark-analyst{number}.spark.svc:15002" for number in range(4000)}
    serving = ServeSettings.model_validate({"workspace": uris, "principal_backend": backends})
    environment = environment_for(serving, Workspaces.from_uris(uris, "dfs.tmp"))
    seen = subprocess.run(
        ["/bin/cat", environment["LODGE_CONFIG"]], env=environment, close_fds=False, check=True, stdout=subprocess.PIPE
    )
    monkeypatch.setenv("LODGE_CONFIG", str(tmp_path / "seen"))
    (tmp_path / "seen").write_bytes(seen.stdout)
    read = SettingsOptions(ReapSettings, parser := argparse.ArgumentParser()).read(parser.parse_args([]))
    assert read.principal_backend == backends
