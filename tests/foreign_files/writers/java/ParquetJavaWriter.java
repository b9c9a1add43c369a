import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.Version;
import org.apache.parquet.avro.AvroParquetWriter;
import org.apache.parquet.column.ParquetProperties.WriterVersion;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.SimpleGroupFactory;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.LocalOutputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.proto.ProtoParquetWriter;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.parquet.schema.Types;

/** Writes files with the Java library of Parquet: its example writer, and those for Avro and Protocol Buffers. */
class ParquetJavaWriter {
    static final long DAY_1 = -719162;
    static final long DAY_9999 = 2932896;
    static final long MICROS_OF_DAY = 86_400_000_000L;
    static final Object[] BYTES = {"", "\0", "abc", null, "Grüße 漢字 😀", "x".repeat(70)};
    static final Object[] DAYS = {DAY_1, -141428L, -141427L, null, 0L, DAY_9999};
    static final Object[] MICROS = {
        DAY_1 * MICROS_OF_DAY, -141427L * MICROS_OF_DAY - 1, -1L, null, 1_710_037_800_123_456L,
        (DAY_9999 + 1) * MICROS_OF_DAY - 1
    };
    static final Object[] MILLIS = Arrays.stream(MICROS)
        .map(micros -> micros == null ? null : Math.floorDiv((Long) micros, 1000)).toArray();
    static final Object[] NANOS = {-9_223_372_036_854_775_000L, -1_000L, 0L, null, 1_710_037_800_123_456_000L,
        9_223_372_036_854_775_000L};

    static Path directory;

    /** Returns the path of a new file. */
    static Path target(String writer, String kind) throws IOException {
        Path path = directory.resolve(writer + "-" + Version.VERSION_NUMBER + "-" + kind + ".parquet");
        Files.deleteIfExists(path);
        return path;
    }

    /** Columns with their values. Each has six rows. */
    static class Columns {
        final List<Type> types = new ArrayList<>();
        final List<Object[]> values = new ArrayList<>();

        Columns add(String type, Object... rows) {
            return add(MessageTypeParser.parseMessageType("message m { " + type + " }").getType(0), rows);
        }

        Columns add(Type type, Object... rows) {
            types.add(type);
            values.add(rows);
            return this;
        }

        Columns nothing(Type type) {
            return add(type, new Object[6]);
        }

        void write(String kind) throws Exception {
            write(kind, builder -> builder);
        }

        void write(String kind, UnaryOperator<ExampleParquetWriter.Builder> options) throws Exception {
            MessageType schema = new MessageType("m", types);
            var factory = new SimpleGroupFactory(schema);
            var builder = ExampleParquetWriter.builder(new LocalOutputFile(target("parquet_java", kind)))
                .withType(schema);
            try (ParquetWriter<Group> writer = options.apply(builder).build()) {
                for (int row = 0; row < values.get(0).length; row++) {
                    Group group = factory.newGroup();
                    for (int column = 0; column < types.size(); column++) {
                        fill(group, types.get(column), values.get(column)[row]);
                    }
                    writer.write(group);
                }
            }
        }
    }

    /** Adds a value to a group: a function fills a group, and an array stands for repeated values. */
    @SuppressWarnings("unchecked")
    static void fill(Group group, Type type, Object value) {
        String name = type.getName();
        if (value == null) {
            return;
        } else if (value instanceof Object[] several) {
            for (Object one : several) {
                fill(group, type, one);
            }
        } else if (value instanceof Map<?, ?> members) {
            Group inner = group.addGroup(name);
            for (Type member : type.asGroupType().getFields()) {
                fill(inner, member, members.get(member.getName()));
            }
        } else {
            switch (type.asPrimitiveType().getPrimitiveTypeName()) {
                case BOOLEAN -> group.add(name, (Boolean) value);
                case INT32 -> group.add(name, ((Number) value).intValue());
                case INT64 -> group.add(name, ((Number) value).longValue());
                case FLOAT -> group.add(name, ((Number) value).floatValue());
                case DOUBLE -> group.add(name, ((Number) value).doubleValue());
                default -> group.add(name, binary(value));
            }
        }
    }

    static Binary binary(Object value) {
        if (value instanceof byte[] bytes) {
            return Binary.fromConstantByteArray(bytes);
        }
        return Binary.fromString((String) value);
    }

    static Map<String, Object> map(Object... pairs) {
        var map = new LinkedHashMap<String, Object>();
        for (int index = 0; index < pairs.length; index += 2) {
            map.put((String) pairs[index], pairs[index + 1]);
        }
        return map;
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

    static byte[] int96(long day, long nanos) {
        return ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN).putLong(nanos).putInt((int) (day + 2440588)).array();
    }

    static byte[] interval(int months, int days, int millis) {
        return ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN).putInt(months).putInt(days).putInt(millis).array();
    }

    static Object[] digits(int precision, int size) {
        BigInteger high = BigInteger.TEN.pow(precision).subtract(BigInteger.ONE);
        return Arrays.stream(new BigInteger[] {high, high.negate(), BigInteger.ZERO, null, BigInteger.ONE, BigInteger.TWO.negate()})
            .map(value -> value == null ? null : size < 0 ? value.toByteArray() : sized(value, size))
            .toArray();
    }

    static byte[] sized(BigInteger value, int size) {
        byte[] sized = new byte[size];
        byte[] bytes = value.toByteArray();
        Arrays.fill(sized, (byte) (value.signum() < 0 ? -1 : 0));
        System.arraycopy(bytes, 0, sized, size - bytes.length, bytes.length);
        return sized;
    }

    static Columns primitives() {
        return new Columns()
            .add("optional boolean boolean;", true, false, null, true, true, false)
            .add("optional int32 int32;", Integer.MIN_VALUE, Integer.MAX_VALUE, 0, null, 1, -1)
            .add("optional int64 int64;", Long.MIN_VALUE, Long.MAX_VALUE, 0, null, 1, -1)
            .add("optional float float;", -0.0f, Float.NaN, Float.POSITIVE_INFINITY, null, Float.MIN_VALUE, -Float.MAX_VALUE)
            .add("optional double double;", -0.0, Double.NaN, Double.NEGATIVE_INFINITY, null, Double.MIN_VALUE, Double.MAX_VALUE)
            .add("optional binary binary;", bytes(), bytes(0), bytes(255, 254), null, bytes(97), new byte[70])
            .add("optional fixed_len_byte_array(3) fixed;", bytes(0, 0, 0), "abc", null, bytes(255, 255, 255), "   ", "xyz")
            .add("optional binary text (STRING);", BYTES)
            .add("required int32 needed;", 1, 2, 3, 4, 5, 6)
            .add("required binary needed_text (STRING);", "a", "", "b", "a", "a", "a");
    }

    static Columns integers() {
        var columns = new Columns();
        for (int bits = 8; bits <= 64; bits *= 2) {
            String storage = bits == 64 ? "int64" : "int32";
            long low = -(1L << (bits - 1));
            long high = -(low + 1);
            long all = bits == 64 ? -1 : (1L << bits) - 1;
            columns.add("optional %s int%d (INTEGER(%d,true));".formatted(storage, bits, bits), low, high, 0, null, 1, -1);
            columns.add("optional %s uint%d (INTEGER(%d,false));".formatted(storage, bits, bits), all, high + 1, 0, null, 1, high);
        }
        return columns;
    }

    static Columns decimals() {
        return new Columns()
            .add("optional int32 int32_1_0 (DECIMAL(1,0));", 9, -9, 0, null, 1, -1)
            .add("optional int32 int32_9_2 (DECIMAL(9,2));", 999_999_999, -999_999_999, 0, null, 1, -1)
            .add("optional int64 int64_9_2 (DECIMAL(9,2));", 999_999_999, -999_999_999, 0, null, 1, -1)
            .add("optional int64 int64_18_18 (DECIMAL(18,18));", 999_999_999_999_999_999L, -999_999_999_999_999_999L, 0, null, 1, -1)
            .add("optional fixed_len_byte_array(4) fixed_9_2 (DECIMAL(9,2));", digits(9, 4))
            .add("optional fixed_len_byte_array(8) fixed_18_0 (DECIMAL(18,0));", digits(18, 8))
            .add("optional fixed_len_byte_array(16) fixed_38_10 (DECIMAL(38,10));", digits(38, 16))
            .add("optional fixed_len_byte_array(20) fixed_of_20_38_38 (DECIMAL(38,38));", digits(38, 20))
            .add("optional binary binary_5_2 (DECIMAL(5,2));", digits(5, -1))
            .add("optional binary binary_18_0 (DECIMAL(18,0));", digits(18, -1))
            .add("optional binary binary_38_10 (DECIMAL(38,10));", digits(38, -1));
    }

    static Columns times() {
        return new Columns()
            .add("optional int32 date (DATE);", DAYS)
            .add("optional int32 time_ms (TIME(MILLIS,true));", 0, 1, 86_399_999, null, 45_296_789, 1000)
            .add("optional int64 time_us (TIME(MICROS,true));", 0, 1, 86_399_999_999L, null, 45_296_789_012L, 1000)
            .add("optional int64 time_ns (TIME(NANOS,true));", 0, 1000, 86_399_999_999_000L, null, 45_296_789_012_000L, 1000)
            .add("optional int64 time_local (TIME(MICROS,false));", 0, 1, 86_399_999_999L, null, 45_296_789_012L, 1000)
            .add("optional int64 timestamp_ms (TIMESTAMP(MILLIS,true));", MILLIS)
            .add("optional int64 timestamp_us (TIMESTAMP(MICROS,true));", MICROS)
            .add("optional int64 timestamp_ns (TIMESTAMP(NANOS,true));", NANOS)
            .add("optional int64 local_ms (TIMESTAMP(MILLIS,false));", MILLIS)
            .add("optional int64 local_us (TIMESTAMP(MICROS,false));", MICROS)
            .add("optional int64 local_ns (TIMESTAMP(NANOS,false));", NANOS)
            .add("optional int96 int96;", int96(DAY_1, 0), int96(-141428, 86_399_999_999_000L), int96(-1, 86_399_999_999_000L),
                null, int96(19_792, 9_000_123_456_000L), int96(DAY_9999, 86_399_999_999_000L));
    }

    static Columns binaries() {
        return new Columns()
            .add("optional binary enum (ENUM);", "one", "two", "one", null, "", "ä")
            .add("optional binary json (JSON);", "{}", "[1, \"ä\"]", "null", null, "1", " true ")
            .add("optional binary bson (BSON);", bytes(5, 0, 0, 0, 0), bytes(5, 0, 0, 0, 0), null, null, null, null)
            .add("optional fixed_len_byte_array(16) uuid (UUID);", new byte[16], bytes(0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255),
                bytes(255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255), null, new byte[16], new byte[16]);
    }

    static Columns half() {
        return new Columns()
            .add("optional fixed_len_byte_array(2) half (FLOAT16);", bytes(0, 0), bytes(0, 128), bytes(0, 126), null, bytes(0, 124), bytes(255, 251));
    }

    static Columns interval() {
        return new Columns()
            .add("optional fixed_len_byte_array(12) interval (INTERVAL);", interval(0, 0, 0), interval(1, 2, 3), interval(-1, -1, -1), null, interval(12, 0, 0), interval(0, 0, 1));
    }

    static Columns nothing() {
        return new Columns()
            .nothing(Types.optional(PrimitiveTypeName.INT32).as(LogicalTypeAnnotation.unknownType()).named("nothing"))
            .nothing(Types.optional(PrimitiveTypeName.BINARY).as(LogicalTypeAnnotation.unknownType()).named("no_bytes"));
    }

    static Columns lists() {
        var list = "optional group %s (LIST) { repeated group %s { %s } }";
        return new Columns()
            .add(list.formatted("three", "list", "optional int32 element;"),
                map("list", many()), map("list", many(map())), map("list", many(map("element", 1), map())), null, map("list", many(map("element", -1))), map())
            .add(list.formatted("needed", "list", "required int32 element;"),
                map(), map("list", many(map("element", 1), map("element", 2))), null, null, map(), map())
            .add(list.formatted("other_names", "bag", "optional int32 array_element;"),
                map(), map("bag", many(map("array_element", 1), map())), null, null, map(), map())
            .add(list.formatted("of_array", "array", "required int32 x;"),
                map(), map("array", many(map("x", 1), map("x", 2))), null, null, map(), map())
            .add(list.formatted("of_tuple", "of_tuple_tuple", "required int32 x;"),
                map(), map("of_tuple_tuple", many(map("x", 1), map("x", 2))), null, null, map(), map())
            .add(list.formatted("of_element", "element", "optional int32 x;"),
                map(), map("element", many(map("x", 1), map())), null, null, map(), map())
            .add(list.formatted("of_pairs", "element", "optional int32 x; optional int32 y;"),
                map(), map("element", many(map("x", 1, "y", 2), map())), null, null, map(), map())
            .add("optional group two (LIST) { repeated int32 element; }",
                map(), map("element", many(1, 2, 3)), null, null, map("element", many(0)), map())
            .add("optional group two_texts (LIST) { repeated binary array (STRING); }",
                map(), map("array", many("", "ä")), null, null, map("array", many("x")), map())
            .add("optional group two_nested (LIST) { repeated group array (LIST) { repeated int32 array; } }",
                map(), map("array", many(map("array", many(1, 2)), map())), null, null, map(), map())
            .add("repeated int32 repeated;", many(), many(1), many(1, 2), many(), many(3), many())
            .add("repeated binary repeated_texts (STRING);", many(), many("a"), many("", "ä"), many(), many("x"), many())
            .add("repeated group repeated_groups { optional int32 x; optional binary y (STRING); }",
                many(), many(map("x", 1)), many(map("x", 2, "y", "z"), map()), many(), many(), many())
            .add("optional group in_group { repeated int32 inner; }",
                map(), map("inner", many(1, 2)), null, map(), null, map())
            .add("optional group nested (LIST) { repeated group list { optional group element (LIST) { repeated group list { optional int64 element; } } } }",
                map(), map("list", many(map("element", map("list", many(map("element", 7), map()))), map(), map("element", map()))), null, null, map(), map());
    }

    static Columns maps() {
        var type = "optional group %s (%s) { repeated group %s { %s } }";
        Object[] rows = {map(), map("key_value", many(map("key", "a", "value", 1), map("key", "ä"))), null, null,
            map("key_value", many(map("key", "", "value", 0))), map()};
        Object[] old = {map(), map("map", many(map("key", "a", "value", 1), map("key", "ä"))), null, null,
            map("map", many(map("key", "", "value", 0))), map()};
        Object[] other = {map(), map("entries", many(map("k", "a", "v", 1), map("k", "ä"))), null, null,
            map("entries", many(map("k", "", "v", 0))), map()};
        return new Columns()
            .add(type.formatted("usual", "MAP", "key_value", "required binary key (STRING); optional int32 value;"), rows)
            .add(type.formatted("old_name", "MAP", "map", "required binary key (STRING); optional int32 value;"), old)
            .add(type.formatted("other_names", "MAP", "entries", "required binary k (STRING); optional int32 v;"), other)
            .add(type.formatted("key_value_only", "MAP_KEY_VALUE", "map", "required binary key (STRING); optional int32 value;"), old)
            .add(type.formatted("of_numbers", "MAP", "key_value", "required int64 key; required double value;"),
                map(), map("key_value", many(map("key", 1, "value", 0.5), map("key", Long.MIN_VALUE, "value", -0.0))), null, null, map(), map())
            .add(type.formatted("of_dates", "MAP", "key_value", "required int32 key (DATE); optional group value { optional int64 at (TIMESTAMP(MICROS,true)); }"),
                map(), map("key_value", many(map("key", 0, "value", map("at", 1)), map("key", DAY_1))), null, null, map(), map());
    }

    static Columns optionalKeys() {
        return new Columns()
            .add("optional group map (MAP) { repeated group key_value { optional binary key (STRING); optional int32 value; } }",
                map(), map("key_value", many(map("key", "a", "value", 1), map("key", "ä"))), null, null, map(), map())
            .add("required int32 n;", 1, 2, 3, 4, 5, 6);
    }

    static Columns set() {
        return new Columns()
            .add("optional group without_values (MAP) { repeated group key_value { required binary key (STRING); } }",
                map(), map("key_value", many(map("key", "a"))), null, null, map(), map())
            .add("required int32 n;", 1, 2, 3, 4, 5, 6);
    }

    static Columns structs() {
        return new Columns()
            .add("optional group struct { optional int32 a; required binary b (STRING); optional group c { optional int64 d; } }",
                map("b", ""), map("a", 1, "b", "x", "c", map()), null, map("b", "y", "c", map("d", 3)), null, map("b", "z"))
            .add("required group needed { required int32 a; }", map("a", 1), map("a", 2), map("a", 3), map("a", 4), map("a", 5), map("a", 6))
            .add("optional group Names { optional int32 with.dot; optional int32 UPPER; optional int32 漢; }",
                map("with.dot", 1, "UPPER", 2, "漢", 3), map(), null, map(), map(), map());
    }

    static byte[] metadata(String... names) {
        var buffer = ByteBuffer.allocate(100).put((byte) 1).put((byte) names.length);
        int at = 0;
        buffer.put((byte) 0);
        for (String name : names) {
            at += name.length();
            buffer.put((byte) at);
        }
        for (String name : names) {
            buffer.put(name.getBytes(StandardCharsets.US_ASCII));
        }
        return Arrays.copyOf(buffer.array(), buffer.position());
    }

    static Columns variants() {
        Object[] rows = {
            map("metadata", metadata(), "value", bytes(12, 1)), // an integer of one byte
            map("metadata", metadata(), "value", bytes(5, 'x')), // a text of one byte
            map("metadata", metadata(), "value", bytes(0)), // null
            null,
            map("metadata", metadata("a"), "value", bytes(2, 1, 0, 0, 2, 12, 7)), // {"a": 7}
            map("metadata", metadata(), "value", bytes(3, 2, 0, 1, 2, 4, 8)), // [true, false]
        };
        return new Columns()
            .add("optional group variant (VARIANT(1)) { required binary metadata; required binary value; }", rows)
            .add("optional group without_annotation { required binary metadata; required binary value; }", rows)
            .add("required int32 n;", 1, 2, 3, 4, 5, 6);
    }

    static Columns shreddedVariants() {
        Object[] numbers = {
            map("metadata", metadata(), "typed_value", 1),
            map("metadata", metadata(), "value", bytes(5, 'x')),
            map("metadata", metadata(), "value", bytes(0)),
            null,
            map("metadata", metadata(), "typed_value", -1),
            map("metadata", metadata(), "typed_value", Integer.MAX_VALUE),
        };
        Object[] objects = {
            map("metadata", metadata("a"), "typed_value", map("a", map("typed_value", "x"))),
            map("metadata", metadata("a"), "typed_value", map("a", map("value", bytes(12, 1)))),
            map("metadata", metadata("a"), "typed_value", map("a", map())),
            null,
            map("metadata", metadata("a", "b"), "value", bytes(2, 1, 1, 0, 2, 12, 7), "typed_value", map("a", map("typed_value", "y"))),
            map("metadata", metadata(), "value", bytes(12, 5)),
        };
        return new Columns()
            .add("optional group numbers (VARIANT(1)) { required binary metadata; optional binary value; optional int32 typed_value; }", numbers)
            .add("optional group objects (VARIANT(1)) { required binary metadata; optional binary value; optional group typed_value "
                + "{ required group a { optional binary value; optional binary typed_value (STRING); } } }", objects)
            .add("required int32 n;", 1, 2, 3, 4, 5, 6);
    }

    static Columns geometries() {
        byte[] point = ByteBuffer.allocate(21).order(ByteOrder.LITTLE_ENDIAN).put((byte) 1).putInt(1).putDouble(1).putDouble(2).array();
        var geometry = Types.optional(PrimitiveTypeName.BINARY).as(LogicalTypeAnnotation.geometryType("OGC:CRS84")).named("geometry");
        var geography = Types.optional(PrimitiveTypeName.BINARY).as(LogicalTypeAnnotation.geographyType()).named("geography");
        return new Columns()
            .add(geometry, point, null, point, point, null, point)
            .add(geography, point, null, point, point, null, point)
            .add("required int32 n;", 1, 2, 3, 4, 5, 6);
    }

    static Columns names() {
        var columns = new Columns();
        for (String name : List.of("UPPER", "with space", "with.dot", "ünïcödé", "with`tick", "a,b;c{d}(e)=f", "2", "select")) {
            columns.add(Types.optional(PrimitiveTypeName.INT32).named(name), 1, 2, 3, null, 4, 5);
        }
        return columns;
    }

    static Columns numbered() {
        return new Columns()
            .add("required int64 n;", java.util.stream.LongStream.range(0, 2000).boxed().toArray())
            .add("required binary text (STRING);", java.util.stream.IntStream.range(0, 2000).mapToObj(n -> "text " + n % 50).toArray());
    }

    static void writeGroups() throws Exception {
        primitives().write("primitives");
        primitives().write("primitives_v2", builder -> builder.withWriterVersion(WriterVersion.PARQUET_2_0).withCompressionCodec(CompressionCodecName.ZSTD));
        primitives().write("plain_v2", builder -> builder.withWriterVersion(WriterVersion.PARQUET_2_0).withDictionaryEncoding(false));
        primitives().write("byte_stream_split", builder -> builder.withByteStreamSplitEncoding(true).withDictionaryEncoding(false));
        integers().write("integers");
        integers().write("integers_v2", builder -> builder.withWriterVersion(WriterVersion.PARQUET_2_0).withDictionaryEncoding(false));
        decimals().write("decimals");
        decimals().write("decimals_v2", builder -> builder.withWriterVersion(WriterVersion.PARQUET_2_0).withDictionaryEncoding(false));
        times().write("times");
        times().write("times_v2", builder -> builder.withWriterVersion(WriterVersion.PARQUET_2_0).withDictionaryEncoding(false));
        binaries().write("binaries");
        half().write("half");
        interval().write("interval");
        nothing().write("nothing");
        lists().write("lists");
        lists().write("lists_v2", builder -> builder.withWriterVersion(WriterVersion.PARQUET_2_0));
        maps().write("maps");
        optionalKeys().write("optional_keys");
        set().write("set");
        structs().write("structs");
        variants().write("variants");
        shreddedVariants().write("shredded_variants");
        geometries().write("geometries");
        names().write("names");
        for (var codec : List.of(CompressionCodecName.UNCOMPRESSED, CompressionCodecName.SNAPPY, CompressionCodecName.GZIP, CompressionCodecName.ZSTD, CompressionCodecName.LZ4_RAW)) {
            primitives().write("codec_" + codec.name().toLowerCase(), builder -> builder.withCompressionCodec(codec));
        }
        numbered().write("row_groups", builder -> builder.withRowGroupSize(8192L).withMinRowCountForPageSizeCheck(10).withPageSize(1024));
        numbered().write("blooms", builder -> builder.withBloomFilterEnabled("text", true).withBloomFilterNDV("text", 50).withPageRowCountLimit(100));
        var empty = primitives();
        empty.values.replaceAll(rows -> new Object[0]);
        empty.write("without_rows");
    }

    static void writeAvro() throws Exception {
        String logical = "{\"type\": \"%s\", \"logicalType\": \"%s\"}";
        String members = """
            {"name": "n", "type": "int"},
            {"name": "text", "type": ["null", "string"]},
            {"name": "bytes", "type": ["null", "bytes"]},
            {"name": "fixed", "type": {"type": "fixed", "name": "three", "size": 3}},
            {"name": "enum", "type": {"type": "enum", "name": "words", "symbols": ["one", "two"]}},
            {"name": "numbers", "type": {"type": "array", "items": "int"}},
            {"name": "texts", "type": ["null", {"type": "array", "items": "string"}]},
            {"name": "nested", "type": {"type": "array", "items": {"type": "array", "items": "long"}}},
            {"name": "records", "type": {"type": "array", "items": {"type": "record", "name": "inner", "fields": [
                {"name": "x", "type": ["null", "double"]}]}}},
            {"name": "map", "type": {"type": "map", "values": ["null", "long"]}},
            {"name": "one_of", "type": ["null", "int", "string"]},
            {"name": "decimal", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}},
            {"name": "date", "type": %s}, {"name": "time_ms", "type": %s}, {"name": "time_us", "type": %s},
            {"name": "timestamp_ms", "type": %s}, {"name": "timestamp_us", "type": %s},
            {"name": "local_ms", "type": %s}, {"name": "local_us", "type": %s}, {"name": "uuid", "type": %s}
            """.formatted(
                logical.formatted("int", "date"), logical.formatted("int", "time-millis"), logical.formatted("long", "time-micros"),
                logical.formatted("long", "timestamp-millis"), logical.formatted("long", "timestamp-micros"),
                logical.formatted("long", "local-timestamp-millis"), logical.formatted("long", "local-timestamp-micros"),
                logical.formatted("string", "uuid"));
        Schema schema = new Schema.Parser().parse("{\"type\": \"record\", \"name\": \"row\", \"fields\": [%s]}".formatted(members));
        for (boolean isOld : List.of(true, false)) {
            var configuration = new Configuration(false);
            configuration.setBoolean("parquet.avro.write-old-list-structure", isOld);
            String kind = isOld ? "old_lists" : "new_lists";
            try (ParquetWriter<GenericData.Record> writer = AvroParquetWriter
                .<GenericData.Record>builder(new LocalOutputFile(target("parquet_avro", kind)))
                .withSchema(schema).withConf(configuration).build()) {
                for (int n = 0; n < 5; n++) {
                    writer.write(avroRecord(schema, n));
                }
            }
        }
    }

    static GenericData.Record avroRecord(Schema schema, int n) {
        var record = new GenericData.Record(schema);
        var inner = new GenericData.Record(schema.getField("records").schema().getElementType());
        inner.put("x", n == 1 ? null : n / 2.0);
        boolean isEven = n % 2 == 0;
        record.put("n", n);
        record.put("text", isEven ? null : "ä" + n);
        record.put("bytes", isEven ? ByteBuffer.wrap(bytes(255, n)) : null);
        record.put("fixed", new GenericData.Fixed(schema.getField("fixed").schema(), bytes(n, n, 200)));
        record.put("enum", new GenericData.EnumSymbol(schema.getField("enum").schema(), isEven ? "one" : "two"));
        record.put("numbers", Collections.nCopies(n, n));
        record.put("texts", n == 2 ? null : Collections.nCopies(n, ""));
        record.put("nested", Collections.nCopies(n, Collections.nCopies(n - 1 < 0 ? 0 : n - 1, 5L)));
        record.put("records", Collections.nCopies(n, inner));
        var map = new LinkedHashMap<String, Long>();
        if (n > 0) {
            map.put("a", null);
            map.put("", (long) n);
        }
        record.put("map", map);
        record.put("one_of", n == 0 ? null : isEven ? (Object) n : "text");
        record.put("decimal", ByteBuffer.wrap(new BigDecimal("-123.45" + n).unscaledValue().toByteArray()));
        record.put("date", (int) DAY_1 + n);
        record.put("time_ms", n);
        record.put("time_us", 86_399_999_999L - n);
        record.put("timestamp_ms", (long) n - 1);
        record.put("timestamp_us", DAY_1 * MICROS_OF_DAY + n);
        record.put("local_ms", (long) n - 1);
        record.put("local_us", DAY_1 * MICROS_OF_DAY + n);
        record.put("uuid", "00112233-4455-6677-8899-aabbccddeef" + n);
        return record;
    }

    static void writeProtocolBuffers() throws Exception {
        for (boolean isOld : List.of(true, false)) {
            var configuration = new Configuration(false);
            configuration.setBoolean("parquet.proto.writeSpecsCompliant", !isOld);
            var file = new LocalOutputFile(target("parquet_protobuf", isOld ? "old_lists" : "new_lists"));
            try (ParquetWriter<com.google.protobuf.MessageOrBuilder> writer = ProtoParquetWriter
                .<com.google.protobuf.MessageOrBuilder>builder(file).withMessage(com.google.protobuf.Type.class).withConf(configuration).build()) {
                for (int n = 0; n < 5; n++) {
                    var field = com.google.protobuf.Field.newBuilder().setName("ä" + n).setNumber(-n).setPacked(n == 1)
                        .setKind(com.google.protobuf.Field.Kind.TYPE_INT32);
                    var type = com.google.protobuf.Type.newBuilder().setName(n == 0 ? "" : "type " + n);
                    for (int index = 0; index < n; index++) {
                        type.addFields(field).addOneofs("");
                    }
                    writer.write(type.setSyntax(com.google.protobuf.Syntax.SYNTAX_PROTO3).build());
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        directory = Path.of(arguments[0]);
        writeGroups();
        writeAvro();
        writeProtocolBuffers();
    }
}
