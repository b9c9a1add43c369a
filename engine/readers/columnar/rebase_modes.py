"""How Parquet files are read that do not name the version of Spark that wrote them, as in Spark.

Source: [spark-data-source], ``DataSourceUtils.datetimeRebaseSpec``.
"""

from dataclasses import dataclass
from typing import Final

CORRECTED: Final = "corrected"
LEGACY: Final = "legacy"
EXCEPTION: Final = "exception"


@dataclass(frozen=True, slots=True)
class RebaseModes:
    """The modes of a scan, from its options.

    Attributes:
        datetime: The mode for dates and times.
        int96: The mode for times of 96 bits.
    """

    datetime: str = CORRECTED
    int96: str = CORRECTED
