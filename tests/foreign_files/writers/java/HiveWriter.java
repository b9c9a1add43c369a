import java.nio.file.Path;
import java.sql.Date;
import java.sql.Timestamp;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TimeZone;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hive.common.type.HiveChar;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.common.type.HiveVarchar;
import org.apache.hadoop.hive.ql.exec.FileSinkOperator.RecordWriter;
import org.apache.hadoop.hive.ql.io.HiveOutputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSerde;
import org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat;
import org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe;
import org.apache.hadoop.hive.serde2.AbstractSerDe;
import org.apache.hadoop.hive.serde2.objectinspector.StandardUnionObjectInspector.StandardUnion;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.Reporter;

/** Writes files with an old version of Hive, as Parquet and ORC. */
class HiveWriter {
    static final String VERSION = "2.3.10";
    static Path directory;

    static Timestamp time(String text) {
        return text == null ? null : Timestamp.valueOf(text);
    }

    static Date day(String text) {
        return text == null ? null : Date.valueOf(text);
    }

    static HiveDecimal decimal(String text) {
        return text == null ? null : HiveDecimal.create(text);
    }

    static Map<String, Integer> map(Object... pairs) {
        Map<String, Integer> map = new HashMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            map.put((String) pairs[index], (Integer) pairs[index + 1]);
        }
        return map;
    }

    static Object union(int tag, Object value) {
        return new StandardUnion((byte) tag, value);
    }

    static final String NAMES = "boolean,tinyint,smallint,int,bigint,float,double,string,binary,date,wide,timestamp,char,varchar,"
        + "decimal_5_2,decimal_38_10,list,nested,struct,map";
    static final String TYPES = "boolean:tinyint:smallint:int:bigint:float:double:string:binary:date:timestamp:timestamp:char(5):varchar(5):"
        + "decimal(5,2):decimal(38,10):array<int>:array<array<string>>:struct<a:int,b:string>:map<string,int>";
    static final List<List<Object>> ROWS = List.of(
        Arrays.asList(true, (byte) -128, (short) -32768, Integer.MIN_VALUE, Long.MIN_VALUE, -0.0f, -0.0, "", new byte[0], day("0001-01-01"),
            time("0001-01-01 00:00:00"), time("1900-01-01 00:00:00"), new HiveChar("", 5), new HiveVarchar("", 5), decimal("999.99"),
            decimal("9999999999999999999999999999.9999999999"), List.of(), List.of(), Arrays.asList(1, "x"), map()),
        Arrays.asList(false, (byte) 127, (short) 32767, Integer.MAX_VALUE, Long.MAX_VALUE, Float.NaN, Double.NaN, "Grüße 漢字 😀", new byte[] {-1, -2},
            day("1582-10-04"), time("1582-10-04 23:59:59.999999"), time("1900-01-01 00:00:00.000001"), new HiveChar("ab", 5), new HiveVarchar("ab ", 5), decimal("-999.99"),
            decimal("-9999999999999999999999999999.9999999999"), List.of(1, 2), List.of(List.of("", "ä"), List.of()), Arrays.asList(null, null), map("a", 1)),
        Collections.nCopies(20, null),
        Arrays.asList(true, (byte) 0, (short) 0, 0, 0L, Float.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, "a\nb", new byte[] {0}, day("1582-10-15"),
            time("1969-12-31 23:59:59.999999"), time("1969-12-31 23:59:58.123456"), new HiveChar("12345", 5), new HiveVarchar("12345", 5), decimal("0"), decimal("0.0000000001"),
            Arrays.asList(0, null), Arrays.asList(null, Arrays.asList((Object) null)), Arrays.asList(5, ""), map("ä", null)),
        Arrays.asList(true, (byte) 1, (short) 1, 1, 1L, Float.MIN_VALUE, Double.MIN_VALUE, " ", new byte[70], day("9999-12-31"),
            time("9999-12-31 23:59:59.999999"), time("2262-04-11 00:00:00"), new HiveChar("ä", 5), new HiveVarchar("ä", 5), decimal("0.01"), decimal("-1"),
            List.of(7), List.of(List.of("x")), Arrays.asList(6, "y"), map("", 0)));

    static void write(String kind, HiveOutputFormat<?, ?> format, AbstractSerDe serde, String names, String types, List<List<Object>> rows, Map<String, String> options)
        throws Exception {
        var job = new JobConf(false);
        job.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
        options.forEach(job::set);
        var properties = new Properties();
        properties.setProperty("columns", names);
        properties.setProperty("columns.types", types);
        options.forEach(properties::setProperty);
        serde.initialize(job, properties);
        var type = TypeInfoFactory.getStructTypeInfo(List.of(names.split(",")), TypeInfoUtils.getTypeInfosFromTypeString(types));
        var inspector = TypeInfoUtils.getStandardJavaObjectInspectorFromTypeInfo(type);
        var path = new org.apache.hadoop.fs.Path(directory.resolve("hive-" + VERSION + "-" + kind).toUri());
        FileSystem.get(path.toUri(), job).delete(path, false);
        RecordWriter writer = format.getHiveRecordWriter(job, path, null, false, properties, Reporter.NULL);
        for (List<Object> row : rows) {
            writer.write(serde.serialize(row, inspector));
        }
        writer.close(false);
    }

    public static void main(String[] arguments) throws Exception {
        directory = Path.of(arguments[0]).toAbsolutePath();
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        for (String codec : List.of("UNCOMPRESSED", "SNAPPY", "GZIP")) {
            write(codec.toLowerCase() + ".parquet", new MapredParquetOutputFormat(), new ParquetHiveSerDe(), NAMES, TYPES, ROWS, Map.of("parquet.compression", codec));
        }
        write("without_rows.parquet", new MapredParquetOutputFormat(), new ParquetHiveSerDe(), NAMES, TYPES, List.of(), Map.of());
        for (String codec : List.of("NONE", "SNAPPY", "ZLIB")) {
            write(codec.toLowerCase() + ".orc", new OrcOutputFormat(), new OrcSerde(), NAMES, TYPES, ROWS, Map.of("orc.compress", codec));
        }
        write("without_rows.orc", new OrcOutputFormat(), new OrcSerde(), NAMES, TYPES, List.of(), Map.of());
        write("union.orc", new OrcOutputFormat(), new OrcSerde(), "n,one_of", "int:uniontype<int,string>",
            List.of(Arrays.asList(1, union(0, 5)), Arrays.asList(2, union(1, "x")), Arrays.asList(3, null)), Map.of());
        TimeZone.setDefault(TimeZone.getTimeZone("America/New_York"));
        write("times_of_new_york.parquet", new MapredParquetOutputFormat(), new ParquetHiveSerDe(), "timestamp", "timestamp",
            List.of(Arrays.asList(time("2024-03-10 03:30:00.123456")), Arrays.asList(time("1900-01-01 00:00:00"))), Map.of());
        write("times_of_new_york.orc", new OrcOutputFormat(), new OrcSerde(), "timestamp", "timestamp",
            List.of(Arrays.asList(time("2024-03-10 03:30:00.123456")), Arrays.asList(time("1900-01-01 00:00:00"))), Map.of());
    }
}
