"""Comparison of table, column and workspace names.

As in Spark by default, names that differ only in case are the same name. Spark compares names after converting them to
lower case. Unicode case folding would give different results. For example, ``ß`` and ``ss`` are different names in
Spark.
"""


def comparable_name(name: str) -> str:
    """Return the normalized form of a name.

    Names that differ only in case have the same normalized form.
    """
    return name.lower()
