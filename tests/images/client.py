"""Runs in a container of lodge-spark: a client whose statements need Lodge's data source on an executor."""

import os

from pyspark.sql import SparkSession

# PySpark sends a token without TLS to localhost alone.
token = os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
spark = SparkSession.builder.remote(f"sc://localhost:15002/;token={token}").getOrCreate()
files = spark.read.format("lodge").options(workspace="dfs", root="/mnt", path="animals.csv", header="true").load()
print("scan:", [tuple(row) for row in files.orderBy("name").collect()])
print("function:", spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
