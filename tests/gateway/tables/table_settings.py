"""The settings of Spark that could change what a table stores or shows, and the values to try."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.java_gateway import launch_gateway

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "table-settings.md"

_CONCERNED = re.compile(
    r"""csv | json | \borc\b | parquet | variant | files | fileSource | \bsources\b | rebase
    | time(zone|type|stamp|parser) | nanos | java8 | char(as)?varchar | charpadding | decimal | collation | geospatial
    | legacy\.interval | binaryoutput | partition(column|spec|path|overwrite) | default(column|size) | corrupt
    | casesens | ansi\.enabled | storeassign | nestedtypecoercion | mapkey | castcomplex | upcast | ctas | v1command
    | linerecord | outputfile | columnvector | truncatetable | pathoption | charsets | codingerror | emptyschema
    | forview""",
    re.VERBOSE | re.IGNORECASE,
)
_OTHER_SUBJECTS = re.compile(
    r"""spark\.sql\.(streaming|avro|optimizer|execution\.(arrow|pandas|python|pyspark)|pyspark|xml|pipelines)
    | sources\.(v2|bucketing|binaryFile) | legacy\.(mysql|oracle|postgres|mssqlserver|db2|jdbc|avro)""",
    re.VERBOSE | re.IGNORECASE,
)
_ROW = re.compile(r"^\| `(spark\.sql\.\S+)` \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
_CLASS = "org.apache.spark.sql.internal.SQLConf$"
_COMMITTER = "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter"

_VALUES = {
    "binaryOutputStyle": ["HEX"],
    "columnNameOfCorruptRecord": ["c1"],
    "csv.parser.inputBufferSize": ["10"],
    "defaultColumn.allowedProviders": ["orc"],
    "defaultSizeInBytes": ["1"],
    "files.ignoredPathSegmentRegex": ["^part", "^x"],
    "files.maxPartitionBytes": ["10000"],
    "files.maxPartitionNum": ["1"],
    "files.maxRecordsPerFile": ["1"],
    "files.minPartitionNum": ["5"],
    "files.openCostInBytes": ["1"],
    "hive.caseSensitiveInferenceMode": ["INFER_AND_SAVE", "INFER_ONLY"],
    "hive.filesourcePartitionFileCacheSize": ["0"],
    "legacy.timeParserPolicy": ["LEGACY", "EXCEPTION"],
    "mapKeyDedupPolicy": ["LAST_WIN"],
    "maxConcurrentOutputFileWriters": ["3"],
    "orc.columnarReaderBatchSize": ["1"],
    "orc.columnarWriterBatchSize": ["1"],
    "orc.compression.codec": ["none", "snappy", "zlib"],
    "orc.impl": ["hive"],
    "parquet.columnarReaderBatchSize": ["1"],
    "parquet.compression.codec": ["none", "gzip", "zstd"],
    "parquet.datetimeRebaseModeInRead": ["LEGACY", "EXCEPTION"],
    "parquet.datetimeRebaseModeInWrite": ["LEGACY", "EXCEPTION"],
    "parquet.int96RebaseModeInRead": ["LEGACY", "EXCEPTION"],
    "parquet.int96RebaseModeInWrite": ["LEGACY", "EXCEPTION"],
    "parquet.output.committer.class": [_COMMITTER],
    "parquet.outputTimestampType": ["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"],
    "parquet.pushdown.inFilterThreshold": ["1"],
    "session.timeZone": ["America/New_York", "Asia/Kathmandu", "-07:52:58"],
    "sources.commitProtocolClass": ["org.apache.spark.internal.io.HadoopMapReduceCommitProtocol"],
    "sources.default": ["json"],
    "sources.fileCompressionFactor": ["7.5"],
    "sources.outputCommitterClass": [_COMMITTER],
    "sources.parallelPartitionDiscovery.parallelism": ["1"],
    "sources.parallelPartitionDiscovery.threshold": ["0"],
    "sources.partitionOverwriteMode": ["DYNAMIC"],
    "sources.structPredicateDecompose.maxFields": ["1"],
    "sources.useListFilesFileSystemList": ["file,s3a"],
    "sources.useV1SourceList": ["", "csv,json"],
    "storeAssignmentPolicy": ["LEGACY", "STRICT"],
    "timeTravelTimestampKey": ["x"],
    "timestampType": ["TIMESTAMP_NTZ"],
    "variant.forceShreddingSchemaForTest": ["a int"],
    "variant.shredding.maxSchemaDepth": ["1"],
    "variant.shredding.maxSchemaWidth": ["1"],
}
"""The values of settings that are not Boolean, without ``spark.sql.``."""
_UNSET = ("<undefined>", "<value of ")


def running_settings() -> Mapping[str, str]:
    """Return the settings of the installed Spark that concern tables, also the internal ones, and their defaults."""
    gateway = launch_gateway()
    try:
        found = gateway.jvm.java.lang.Class.forName(_CLASS).getField("MODULE$").get(None)
        entries = [
            (each.key(), each.defaultValueString())
            for each in found.getConfigEntries().toArray()
            if not found.isStaticConfigKey(each.key())
        ]
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
    return {key: default for key, default in entries if _CONCERNED.search(key) and not _OTHER_SUBJECTS.search(key)}


def documented_effects() -> Mapping[str, str]:
    """Return the effect of each setting on the page."""
    rows = _ROW.findall(PAGE.read_text())
    effects = {key: effect.strip() for key, effect in rows}
    assert len(rows) == len(effects), "the page has a setting twice"
    return effects


def values(key: str, default: str) -> Sequence[str]:
    """Return the values of a setting to try.

    Raises:
        KeyError: If they are not known.
    """
    if default in {"true", "false"}:
        return ["false" if default == "true" else "true"]
    short = key.removeprefix("spark.sql.")
    if short not in _VALUES and default.startswith(_UNSET):
        return ["true", "false"]
    return _VALUES[short]
