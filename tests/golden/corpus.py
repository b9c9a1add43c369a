"""The texts of the golden corpus: Spark's own SQL tests, the statements of Lodge's tests, and random changes of both.

Source: [spark-sql-tests], the directory ``sql-tests/inputs`` of Spark's jar for tests.
"""

import json
import random
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.maven import fetch_jars

_POM = Path(__file__).with_name("pom.xml")
_OWN_TEXTS = Path(__file__).with_name("own_texts.jsonl")
_INPUTS = "sql-tests/inputs/"
_END = re.compile(r"(?<=[^\\]);")
_TOKEN = re.compile(r"\s+|\w+|`[^`]*`|'[^']*'|\"[^\"]*\"|--[^\n]*|.", re.DOTALL)
_NAMES = ("t", "T1", "`t`", "dfs.tmp.t", "dfs.`f.csv`", "dfs.tmp.`t2`", "session.t", "`dfs.tmp`.t", "window", "v")
_WORDS = (
    *("temporary", "table", "view", "as", "select", "from", "values", "(1)", "with", "insert into", "drop", "create"),
    *("identifier('t')", ",", "(", ")", "/*", "*/", "--\n", "'", '"', "`", ";", "${x}", "join", "using", "explain"),
)
_GROUP_SIZE = 250
_CHANGED_TEXTS = 4_000


def groups() -> Mapping[str, Sequence[str]]:
    """Return the texts of the corpus by the name of their group. They are the same on each machine.

    The statements of Lodge's tests are those of the time when the corpus was recorded.

    Raises:
        MissingMavenError: Maven is not installed.
        CalledProcessError: Maven failed.
    """
    by_group = dict(_spark_statements())
    own = [json.loads(line) for line in _OWN_TEXTS.read_text().splitlines()]
    for number in range(0, len(own), _GROUP_SIZE):
        by_group[f"lodge {number}"] = own[number : number + _GROUP_SIZE]
    texts = [text for group in by_group.values() for text in group if len(text) < 2_000]
    changed = list(_change_at_random(texts, random.Random(1)))  # noqa: S311 - must be repeatable
    for number in range(0, len(changed), _GROUP_SIZE):
        by_group[f"changed {number}"] = changed[number : number + _GROUP_SIZE]
    return by_group


def _spark_statements() -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each input of Spark's tests, and its statements as Spark separates them."""
    with zipfile.ZipFile(fetch_test_jar()) as archive:
        for name in sorted(archive.namelist()):
            if _INPUTS in name and name.endswith(".sql"):
                lines = archive.read(name).decode().splitlines()
                text = "\n".join(line for line in lines if not line.strip().startswith("--"))
                statements = [each.strip() for each in _END.split(text)]
                yield name.partition(_INPUTS)[2], [each for each in statements if each]


def _change_at_random(texts: Sequence[str], chosen: random.Random) -> Iterator[str]:
    """Yield texts in which tokens are replaced, removed, repeated or added."""
    for _ in range(_CHANGED_TEXTS):
        tokens = _TOKEN.findall(chosen.choice(texts))
        for _ in range(chosen.choice((1, 1, 2, 4))):
            where = chosen.randrange(len(tokens) + 1)
            match chosen.randrange(5):
                case 0:
                    tokens[where:where] = [" ", chosen.choice(_WORDS), " "]
                case 1:
                    tokens[where : where + 1] = []
                case 2:
                    tokens[where:where] = tokens[where : where + chosen.randrange(1, 6)]
                case _:
                    words = [number for number, token in enumerate(tokens) if token.isidentifier()]
                    if words:
                        tokens[chosen.choice(words)] = chosen.choice(_NAMES)
        yield "".join(tokens)


def fetch_test_jar() -> Path:
    """Return Spark's jar for tests (50 MB). The first call fetches it.

    Raises:
        MissingMavenError: Maven is not installed.
        CalledProcessError: Maven failed.
    """
    (jar,) = fetch_jars("sql-tests", _POM).iterdir()
    return jar
