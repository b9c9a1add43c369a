"""Local times as points in time, as Spark and Java convert them.

A time that the clocks show twice is the first of the two. A time that they skip is moved forward by the length of the
gap: if they go from 02:00 to 03:00, 02:30 becomes 03:30.
"""

import pyarrow as pa
import pyarrow.compute as pc


def to_instants(local: pa.Array, zone: str) -> pa.Array:
    """Return the points in time at which the clocks of a time zone show local times.

    Args:
        local: Timestamps in microseconds without a time zone.
        zone: The name of the time zone.
    """
    found = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    # For a time that is skipped, Arrow returns the last point in time before.
    skipped = pc.subtract(local, pc.local_timestamp(found))
    return pc.add(found, skipped)
