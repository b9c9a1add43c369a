import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.orc.CompressionKind;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;

/** Writes files with the Java library of ORC, and with old versions of it. */
class OrcJavaWriter {
    static final Object[] TEXTS = {"", " ", "Grüße 漢字 😀", null, "a\nb", "x".repeat(70)};
    static final Object[] TIMES = {time("1900-01-01T00:00:00Z"), time("1900-01-01T00:00:00.000001Z"),
        time("1969-12-31T23:59:58.123456Z"), null, time("2024-03-10T02:30:00.123456Z"), time("2262-04-11T00:00:00Z")};
    static final Object[] WIDE_TIMES = {time("0001-01-01T00:00:00Z"), time("1582-10-14T23:59:59.999999Z"),
        time("1969-12-31T23:59:59.999999Z"), null, time("2024-03-10T02:30:00.123456Z"), time("9999-12-31T23:59:59.999999Z")};

    static Path directory;
    static String version;

    static Object time(String text) {
        return Instant.parse(text);
    }

    static Object day(String text) {
        return LocalDate.parse(text).toEpochDay();
    }

    static Object[] many(Object... values) {
        return values;
    }

    static byte[] bytes(int... values) {
        byte[] bytes = new byte[values.length];
        for (int index = 0; index < values.length; index++) {
            bytes[index] = (byte) values[index];
        }
        return bytes;
    }

    static Object[] decimals(int precision, int scale) {
        BigInteger high = BigInteger.TEN.pow(precision).subtract(BigInteger.ONE);
        return Arrays.stream(new BigInteger[] {high, high.negate(), BigInteger.ZERO, null, BigInteger.ONE, BigInteger.TEN})
            .map(digits -> digits == null ? null : new BigDecimal(digits, scale)).toArray();
    }

    /** A branch of a union, with its value. */
    record Branch(int tag, Object value) {}

    static void set(ColumnVector vector, int row, Object value) {
        if (value == null) {
            vector.noNulls = false;
            vector.isNull[row] = true;
        } else if (vector instanceof TimestampColumnVector times) {
            Instant time = (Instant) value;
            times.time[row] = time.getEpochSecond() * 1000 + time.getNano() / 1_000_000;
            times.nanos[row] = time.getNano();
        } else if (vector instanceof LongColumnVector longs) {
            longs.vector[row] = value instanceof Boolean is ? (is ? 1 : 0) : ((Number) value).longValue();
        } else if (vector instanceof DoubleColumnVector doubles) {
            doubles.vector[row] = ((Number) value).doubleValue();
        } else if (vector instanceof BytesColumnVector texts) {
            texts.setVal(row, value instanceof byte[] bytes ? bytes : ((String) value).getBytes(StandardCharsets.UTF_8));
        } else if (vector instanceof DecimalColumnVector decimals) {
            decimals.vector[row] = new HiveDecimalWritable(HiveDecimal.create((BigDecimal) value));
        } else if (vector instanceof StructColumnVector structs) {
            Object[] members = (Object[]) value;
            for (int index = 0; index < members.length; index++) {
                set(structs.fields[index], row, members[index]);
            }
        } else if (vector instanceof ListColumnVector lists) {
            Object[] elements = (Object[]) value;
            lists.offsets[row] = lists.childCount;
            lists.lengths[row] = elements.length;
            lists.child.ensureSize(lists.childCount + elements.length, true);
            for (Object element : elements) {
                set(lists.child, lists.childCount++, element);
            }
        } else if (vector instanceof MapColumnVector maps) {
            Object[] pairs = (Object[]) value;
            maps.offsets[row] = maps.childCount;
            maps.lengths[row] = pairs.length / 2;
            maps.keys.ensureSize(maps.childCount + pairs.length / 2, true);
            maps.values.ensureSize(maps.childCount + pairs.length / 2, true);
            for (int index = 0; index < pairs.length; index += 2) {
                set(maps.keys, maps.childCount, pairs[index]);
                set(maps.values, maps.childCount++, pairs[index + 1]);
            }
        } else if (vector instanceof UnionColumnVector unions) {
            Branch branch = (Branch) value;
            unions.tags[row] = branch.tag;
            for (int tag = 0; tag < unions.fields.length; tag++) {
                set(unions.fields[tag], row, tag == branch.tag ? branch.value : null);
            }
        } else {
            throw new IllegalArgumentException(vector.getClass().getName());
        }
    }

    static void write(String kind, String type, Object[]... columns) throws Exception {
        write(kind, OrcFile.writerOptions(new Configuration(false)), type, columns);
    }

    static void write(String kind, OrcFile.WriterOptions options, String type, Object[]... columns) throws Exception {
        TypeDescription schema = TypeDescription.fromString("struct<" + type + ">");
        var path = new org.apache.hadoop.fs.Path(directory.resolve("orc_java-" + version + "-" + kind + ".orc").toString());
        options.fileSystem(new org.apache.hadoop.fs.RawLocalFileSystem() {{ initialize(java.net.URI.create("file:///"), new Configuration(false)); }});
        try (Writer writer = OrcFile.createWriter(path, options.setSchema(schema).overwrite(true))) {
            VectorizedRowBatch batch = schema.createRowBatch(Math.max(1, columns[0].length));
            for (int row = 0; row < columns[0].length; row++) {
                for (int column = 0; column < columns.length; column++) {
                    set(batch.cols[column], row, columns[column][row]);
                }
                batch.size++;
            }
            writer.addRowBatch(batch);
        }
    }

    static final String PRIMITIVES = "boolean:boolean,tinyint:tinyint,smallint:smallint,int:int,bigint:bigint,float:float,double:double,"
        + "string:string,binary:binary,date:date,char:char(5),varchar:varchar(5)";
    static final Object[][] ROWS = {
        {true, false, true, null, true, false},
        {-128, 127, 0, null, 1, -1},
        {-32768, 32767, 0, null, 1, -1},
        {Integer.MIN_VALUE, Integer.MAX_VALUE, 0, null, 1, -1},
        {Long.MIN_VALUE, Long.MAX_VALUE, 0, null, 1, -1},
        {-0.0f, Float.NaN, Float.POSITIVE_INFINITY, null, Float.MIN_VALUE, -Float.MAX_VALUE},
        {-0.0, Double.NaN, Double.NEGATIVE_INFINITY, null, Double.MIN_VALUE, Double.MAX_VALUE},
        TEXTS,
        {bytes(), bytes(0), bytes(255, 254), null, bytes(97), new byte[70]},
        {day("0001-01-01"), day("1582-10-04"), day("1582-10-15"), null, day("1970-01-01"), day("9999-12-31")},
        {"", "a", "  b", null, "12345", "ä"},
        {"", "a ", "  b", null, "12345", "ä"},
    };

    public static void main(String[] arguments) throws Exception {
        directory = Path.of(arguments[0]);
        version = org.apache.orc.OrcUtils.getOrcVersion();
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        write("primitives", PRIMITIVES, ROWS);
        for (boolean isProleptic : new boolean[] {true, false}) {
            write(isProleptic ? "times_proleptic" : "times_julian",
                OrcFile.writerOptions(new Configuration(false)).setProlepticGregorian(isProleptic),
                "date:date,timestamp:timestamp,instant:timestamp with local time zone,"
                    + "wide:timestamp,wide_instant:timestamp with local time zone",
                ROWS[9], TIMES, TIMES, WIDE_TIMES, WIDE_TIMES);
        }
        TimeZone.setDefault(TimeZone.getTimeZone("America/New_York"));
        write("times_of_new_york", "timestamp:timestamp,instant:timestamp with local time zone", TIMES, TIMES);
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        write("nanoseconds", "timestamp:timestamp,instant:timestamp with local time zone",
            many(time("2024-03-10T02:30:00.123456789Z"), null), many(time("2024-03-10T02:30:00.123456789Z"), null));
        write("decimals", "d1:decimal(1,0),d2:decimal(9,2),d3:decimal(10,0),d4:decimal(18,18),d5:decimal(19,5),d6:decimal(38,0),d7:decimal(38,38)",
            decimals(1, 0), decimals(9, 2), decimals(10, 0), decimals(18, 18), decimals(19, 5), decimals(38, 0), decimals(38, 38));
        write("nested", "list:array<int>,nested:array<array<int>>,struct:struct<a:int,b:string>,structs:array<struct<a:int,b:string>>,"
                + "map:map<string,int>,map_of_lists:map<int,array<string>>,times:array<timestamp>,chars:array<char(3)>",
            many(many(), many((Object) null), many(1, 2, 3), null, many(0), many(-1, null)),
            many(many(), many((Object) null), many(many(1), many()), null, many(many((Object) null)), many()),
            many(many(1, "x"), many(null, null), many(2, ""), null, many(3, "ä"), many(4, null)),
            many(many(), many((Object) null), many(many(1, "x"), many(null, null)), null, many(), many()),
            many(many(), many("a", 1), many("", null, "ä", 2), null, many(), many()),
            many(many(), many(1, many("x", null)), many(2, null), null, many(), many()),
            many(TIMES, many(), many((Object) null), null, many(), many()),
            many(many("a"), many("abc"), many(""), null, many(), many()));
        write("union", "n:int,one_of:uniontype<int,string,array<int>>,in_struct:struct<u:uniontype<int,string>>",
            many(1, 2, 3, 4, 5, 6),
            many(new Branch(0, 1), new Branch(1, "x"), new Branch(0, null), null, new Branch(2, many(1, 2)), new Branch(1, "")),
            many(many(new Branch(0, 1)), many(new Branch(1, "x")), null, null, many((Object) null), null));
        write("names", "UPPER:int,`with space`:int,`with.dot`:int,`ünïcödé`:int,`a,b;c{d}(e)=f`:int,`2`:int,`select`:int,Struct:struct<`In.ner`:int,Upper:int>",
            many(1, null), many(1, null), many(1, null), many(1, null), many(1, null), many(1, null), many(1, null), many(many(1, 2), null));
        Object[][] empty = new Object[ROWS.length][0];
        write("without_rows", PRIMITIVES, empty);
        for (CompressionKind codec : CompressionKind.values()) {
            write("codec_" + codec.name().toLowerCase(), OrcFile.writerOptions(new Configuration(false)).compress(codec), "n:int,text:string", many(1, 2, null, 4, 5, 6), TEXTS);
        }
        write("version_0_11", OrcFile.writerOptions(new Configuration(false)).version(OrcFile.Version.V_0_11), PRIMITIVES, ROWS);
        Object[] numbers = new Object[3000];
        Object[] texts = new Object[3000];
        for (int n = 0; n < 3000; n++) {
            numbers[n] = n;
            texts[n] = "text " + n % 50;
        }
        write("blooms", OrcFile.writerOptions(new Configuration(false)).rowIndexStride(1000).bloomFilterColumns("text"), "n:bigint,text:string", numbers, texts);
    }
}
