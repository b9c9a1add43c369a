"""The page about the values of the chart."""

import json

import pytest
import yaml

from scripts import chart_values

VALUES = dict(chart_values.leaves(yaml.safe_load((chart_values.CHART / "values.yaml").read_text())))
SCHEMA = json.loads((chart_values.CHART / "values.schema.json").read_text())


def test_page_is_current() -> None:
    assert chart_values.PAGE.read_text() == chart_values.page(), "Run make chart-docs."


@pytest.mark.parametrize("path", VALUES)
def test_value_has_a_description(path: str) -> None:
    text = chart_values.description(SCHEMA, path)
    assert text[:1].isupper() or text.startswith("`")
    assert text.endswith((".", ")", "]"))
