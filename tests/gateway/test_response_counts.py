"""The counts that the gateway reads from encoded responses agree with the decoded responses."""

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.connect.proto import base_pb2

from gateway.auditing.response_counts import ResponseCounts, read_counts

UUID = "00000000-0000-4000-8000-000000000001"


def response(**fields: object) -> base_pb2.ExecutePlanResponse:
    return base_pb2.ExecutePlanResponse(
        session_id=UUID, server_side_session_id=UUID, operation_id=UUID, response_id=UUID, **fields
    )


@given(
    rows=st.integers(0, 2**40),
    data=st.binary(max_size=300),
    offset=st.none() | st.integers(0, 2**40),
    chunk=st.none() | st.integers(0, 5),
)
def test_rows_of_a_batch_are_counted(rows: int, data: bytes, offset: int | None, chunk: int | None) -> None:
    batch = base_pb2.ExecutePlanResponse.ArrowBatch(row_count=rows, data=data)
    if offset is not None:
        batch.start_offset = offset
    if chunk is not None:
        batch.chunk_index, batch.num_chunks_in_batch = chunk, 6
    counts = read_counts(response(arrow_batch=batch).SerializeToString())
    assert counts.rows == (0 if chunk else rows)
    assert counts.rows_until == (None if offset is None else offset + rows)
    assert not counts.is_complete


def test_last_response_is_recognized() -> None:
    complete = response(result_complete=base_pb2.ExecutePlanResponse.ResultComplete())
    assert read_counts(complete.SerializeToString()) == ResponseCounts(is_complete=True)


def test_other_responses_count_nothing() -> None:
    progress = base_pb2.ExecutePlanResponse.ExecutionProgress(num_inflight_tasks=3)
    for each in (response(), response(execution_progress=progress)):
        assert read_counts(each.SerializeToString()) == ResponseCounts()


@given(data=st.binary(max_size=200))
def test_any_bytes_are_harmless(data: bytes) -> None:
    read_counts(data)
