"""Sum a raw CSV file into a temporary table, with nothing but PySpark's own Spark Connect client.

Run it against a gateway that was started in the directory of ``amount.csv``::

    python examples/amount_by_discount.py sc://127.0.0.1:15002
"""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1] if len(sys.argv) > 1 else "sc://127.0.0.1:15002").getOrCreate()

spark.sql("""
    create temporary table total_amount_by_discount as
    select cast(columns[3] as boolean) discount, sum(cast(columns[2] as double)) total_amount
    from dfs.`amount.csv`
    group by columns[3]
""").show()

spark.sql("select * from total_amount_by_discount order by discount").show()
spark.sql("select * from dfs.tmp.Total_Amount_BY_Discount order by discount").show()

if len(sys.argv) > 2:  # keep the session open until the caller has looked at its files
    print(sys.argv[2], flush=True)
    sys.stdin.readline()

spark.stop()
