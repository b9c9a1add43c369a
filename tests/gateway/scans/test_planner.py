"""Who lists the files of a scan."""

import pytest
from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.types import StructType

from gateway.scans.planner import ScanPlanner, SessionScans
from gateway.storage import make_workspace_reads
from workspace.identifiers import Principal
from workspace.workspaces import Workspace, Workspaces


class BackendWithEngine:
    """A session at a backend that has the engine of the gateway, and runs no job."""

    server_side_session_id = "1"

    async def analyze_schema(self, relation):
        return StructType()


@pytest.mark.parametrize("lists_files", [True, False])
async def test_gateway_lists_files_only_if_it_may(tmp_path, lists_files):
    """With impersonation, the gateway may have more permissions than the client."""
    (tmp_path / "private.xyz").touch()
    workspace = Workspace("dfs", tmp_path)
    workspaces = Workspaces({"dfs": workspace}, workspace)
    scan = relations_pb2.Relation()
    scan.read.data_source.format = "lodge"
    scan.read.data_source.options.update({"workspace": "dfs", "root": str(tmp_path), "path": "."})
    before = relations_pb2.Relation()
    before.CopyFrom(scan)
    planner = ScanPlanner(make_workspace_reads(), lambda known, discovered: None, lists_files=lists_files)
    session = SessionScans(planner, Principal("ann"), BackendWithEngine(), workspaces)
    if lists_files:
        with pytest.raises(Exception, match=r"private\.xyz"):
            await session.plan([scan])
    else:
        await session.plan([scan])
    assert scan == before
