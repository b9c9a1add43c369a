"""Statements whose stream was lost during a discovery with progress.

The client has received a response, so it does not send the statement again, but reattaches. If it reattaches at another
gateway, that gateway does not have the statement (:mod:`gateway.scans.kept_statements`). The first gateway may not have
noticed the loss of the stream, and may still send the statement to the backend.

Guarantee: a client that received ``LODGE_DISCOVERY_LOST`` can run its statement again. The lost statement does not
begin later, because its operation id was used before. A backend begins one operation with an id. It remembers the id
for 30 minutes after the operation was released, and the gateway notices the loss of a stream within 30 seconds.

Source: [spark-connect-server SparkConnectExecutionManager].
"""

import pyarrow as pa
from pyspark.sql.connect.proto import base_pb2

from gateway.backends.backend_session import BackendSession
from gateway.errors import GatewayError
from gateway.operations.responses import encode_arrow_stream
from gateway.scans.expressions import call, text_literal

_TEXT = (
    "The stream of the statement ended while the schemas of files were discovered. The statement has no effect. Run it "
    "again. Files that were examined are not examined again."
)
_ONE_ROW = encode_arrow_stream(pa.table({"value": [True]}))


async def prevent_start(backend: BackendSession, operation_id: str) -> bool:
    """Use the operation id of a statement, so that the statement cannot begin later.

    Args:
        backend: The session of the client at the backend.
        operation_id: The operation id of the statement.

    Returns:
        False if the backend already knows the operation. Then the client can reattach to it.

    Raises:
        BackendError: If the backend does not respond.
    """
    return await backend.operations.use_operation_id(operation_id, _failing_plan())


def _failing_plan() -> base_pb2.Plan:
    """Return a plan that fails while Spark optimizes it. So it does not wait for a free core."""
    plan = base_pb2.Plan()
    plan.root.project.input.local_relation.data = _ONE_ROW
    plan.root.project.expressions.append(call("raise_error", text_literal(str(discovery_lost()))))
    return plan


def discovery_lost() -> GatewayError:
    """Return the error for a statement that was lost during discovery."""
    return GatewayError("LODGE_DISCOVERY_LOST", "58000", _TEXT)
