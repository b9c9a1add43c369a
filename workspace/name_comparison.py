"""Comparison of the names of tables, columns and workspaces.

Names that differ only in letter case are the same name, as in Spark by default. Spark compares names in lower case. The
full case folding of Unicode is no substitute: for Spark, ``ß`` and ``ss`` are different names.
"""


def comparable_name(name: str) -> str:
    """Return a form of a name that is equal for all spellings of the name.

    Spellings differ in letter case only.
    """
    return name.lower()
