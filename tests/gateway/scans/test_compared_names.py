"""Names are equal in scans if they are equal in Spark: by their lower case, without case folding and normal forms."""

import unicodedata

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import AnalysisException
from pyspark.sql.connect.functions import col

from engine.scan_source import mentioned_form
from engine.schema import fold_case

pytestmark = pytest.mark.slow

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
PAIRS = {
    "letters": ("a", "A"),
    "accents": (COMPOSED, COMPOSED.upper()),
    "sharp s": ("straße", "STRASSE"),
    "capital sharp s": ("\N{LATIN CAPITAL LETTER SHARP S}", "ß"),
    "long s": ("\N{LATIN SMALL LETTER LONG S}", "s"),
    "dotted i": ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i"),
    "dotted i and its lower case": ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i\N{COMBINING DOT ABOVE}"),
    "dotless i": ("\N{LATIN SMALL LETTER DOTLESS I}", "i"),
    "kelvin": ("\N{KELVIN SIGN}", "k"),
    "ohm": ("\N{OHM SIGN}", "\N{GREEK SMALL LETTER OMEGA}"),
    "micro": ("\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"),
    "final sigma": ("\u039f\u03a3", "\u03bf\u03c2"),
    "sigma that is not final": ("\u039f\u03a3", "\u03bf\u03c3"),
    "ligature": ("\N{LATIN SMALL LIGATURE FI}", "fi"),
    "normal forms": (COMPOSED, DECOMPOSED),
}


@pytest.fixture(scope="module")
def files(lodge):
    for case, (one, other) in PAIRS.items():
        folder = lodge.files / "compared" / case
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({one: [1]}), folder / "1.parquet")
        parquet.write_table(pa.table({other: [2]}), folder / "2.parquet")
        (folder / "a.csv").write_text(f"{one},{other}\n1,2\n")
    return lodge.files / "compared"


def table(frame):
    return frame.schema.simpleString(), sorted(map(tuple, frame.collect()), key=str)


@pytest.mark.parametrize("case", PAIRS)
def test_columns_of_files_are_the_same_as_in_spark(spark, direct, files, case):
    expected = table(direct.read.option("mergeSchema", True).parquet(f"{files}/{case}/*.parquet"))
    assert table(spark.sql(f"select * from dfs.`compared/{case}/*.parquet`")) == expected


@pytest.mark.parametrize("case", PAIRS)
def test_header_has_a_name_twice_if_it_has_in_spark(spark, direct, files, case):
    expected = direct.read.option("header", True).csv(str(files / case / "a.csv"))
    query = f"select * from dfs.`compared/{case}/a.csv` with (header = true)"
    if expected.columns == list(PAIRS[case]):
        assert table(spark.sql(query)) == table(expected)
        return
    with pytest.raises(AnalysisException) as raised:  # Spark appends the position to both names
        spark.sql(query).collect()
    assert raised.value.getCondition() == "LODGE_DUPLICATE_COLUMN"


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize(
    "query",
    [
        "select `{other}` from {one_file}",
        "select m.`{other}` from (select struct(`{one}`) m from {one_file})",
        "select count(1) from {one_file} t join (select `{other}` from {other_file}) u using (`{other}`)",
    ],
    ids=["select", "member", "using"],
)
def test_statements_find_the_columns_that_they_find_in_spark(spark, direct, files, case, query):
    """A scan does not leave out a column that Spark finds under a name of the statement."""

    def find(session, place):
        names = {"one_file": f"{place}/{case}/1.parquet`", "other_file": f"{place}/{case}/2.parquet`"}
        try:
            return table(session.sql(query.format(one=PAIRS[case][0], other=PAIRS[case][1], **names)))
        except AnalysisException as error:
            return error.getCondition().partition(".")[0]

    assert find(spark, "dfs.`compared") == find(direct, f"parquet.`{files}")


def test_operations_of_data_frames_find_names_that_are_no_words(spark, direct, lodge):
    names = {"a-b": [1], DECOMPOSED: [2], "x y": [3], "c": [4]}
    parquet.write_table(pa.table(names), lodge.files / "no_words.parquet")
    for name in names:
        frames = [
            session.sql(f"select c from {place}").where(col(f"`{name}`" if name == "a-b" else name) > 0)
            for session, place in (
                (spark, "dfs.`no_words.parquet`"),
                (direct, f"parquet.`{lodge.files}/no_words.parquet`"),
            )
        ]
        assert table(frames[0]) == table(frames[1])


def test_names_that_spark_may_take_for_the_same_count_as_mentioned():
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    same = [
        (each, changed)
        for each in characters
        for changed in (each.upper(), each.lower(), each.title(), each.upper().lower())
        if len(changed) == 1 or fold_case(each) == changed
    ]
    assert len(same) > 1000
    assert [pair for pair in same if mentioned_form(pair[0]) != mentioned_form(pair[1])] == []
