"""JSON texts that clients, backends or other programs wrote."""

import json
from typing import Any

MAX_JSON_CHARACTERS = 65_536
"""The maximum length of such a text. Python's parser needs up to 0.4 µs and 50 bytes for each character, and blocks all
other threads for that time."""


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: If the text is too long, is not JSON, or is nested too deeply.
    """
    if len(text) > MAX_JSON_CHARACTERS:
        raise ValueError(f"The JSON text has {len(text):,} characters. The maximum is {MAX_JSON_CHARACTERS:,}.")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("The JSON text is nested too deeply.") from error
