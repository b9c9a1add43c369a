"""Spark's own table of error conditions."""

import json
import zipfile
from pathlib import Path

import pyspark
import pytest


@pytest.fixture(scope="session")
def spark_conditions():
    """Return a function that finds the SQLSTATE and the message of a condition."""
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar"))
    with zipfile.ZipFile(jar) as archive:
        conditions = json.loads(archive.read("error/error-conditions.json"))

    def find(condition):
        main, _, rest = condition.partition(".")
        entry = conditions[main]
        state, template = entry["sqlState"], "\n".join(entry["message"])
        if "subClass" in entry:
            inner = entry["subClass"][rest]
            state, template = inner.get("sqlState", state), f"{template} {chr(10).join(inner['message'])}"
        return state, template

    return find
