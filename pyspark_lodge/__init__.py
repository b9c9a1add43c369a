"""Makes ``format("lodge")`` known to Spark without a registration.

Spark looks on the Python path of its driver for top-level packages named ``pyspark_*`` that have a
``DefaultSource``.
"""

from engine.spark import LodgeDataSource as DefaultSource

__all__ = ["DefaultSource"]
