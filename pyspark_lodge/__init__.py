"""Registers the data source ``format("lodge")`` with Spark.

Spark searches the Python path of its driver for top-level packages named ``pyspark_*`` and registers their
``DefaultSource`` [spark-data-source].
"""

from engine.spark import LodgeDataSource as DefaultSource

__all__ = ["DefaultSource"]
