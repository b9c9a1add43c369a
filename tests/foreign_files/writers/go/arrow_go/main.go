// Command arrow_go writes files with github.com/apache/arrow-go, as Parquet and Arrow IPC. The argument is their directory.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

const name = "arrow_go-18.5.1-"

type column struct {
	name   string
	kind   arrow.DataType
	values string
}

var (
	zones  = map[string]string{"": "", "_UTC": "UTC", "_New_York": "America/New_York"}
	fields = arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
	)
	integers   = arrow.PrimitiveTypes
	texts      = `["", " ", "Grüße 漢字 😀", null, "a\nb"]`
	bytes      = `["", "AA==", "//4=", null, "YWJj"]`
	primitives = []column{
		{"number", integers.Int32, `[0, 1, 2, 3, 4]`},
		{"boolean", arrow.FixedWidthTypes.Boolean, `[true, false, null, true, false]`},
		{"int8", integers.Int8, `[-128, 127, 0, null, 1]`},
		{"int16", integers.Int16, `[-32768, 32767, 0, null, 1]`},
		{"int32", integers.Int32, `[-2147483648, 2147483647, 0, null, 1]`},
		{"int64", integers.Int64, `[-9223372036854775808, 9223372036854775807, 0, null, 1]`},
		{"uint8", integers.Uint8, `[255, 128, 0, null, 1]`},
		{"uint16", integers.Uint16, `[65535, 32768, 0, null, 1]`},
		{"uint32", integers.Uint32, `[4294967295, 2147483648, 0, null, 1]`},
		{"uint64", integers.Uint64, `[18446744073709551615, 9223372036854775808, 0, null, 1]`},
		{"float", integers.Float32, `[-0.0, -3.4028234663852886e38, 0.5, null, 1]`},
		{"double", integers.Float64, `[-0.0, 1.7976931348623157e308, 5e-324, null, 1]`},
		{"text", arrow.BinaryTypes.String, texts},
		{"binary", arrow.BinaryTypes.Binary, bytes},
		{"large_text", arrow.BinaryTypes.LargeString, texts},
		{"fixed", &arrow.FixedSizeBinaryType{ByteWidth: 3}, `["YWJj", "AAAA", "////", null, "YWJj"]`},
		{"dictionary", &arrow.DictionaryType{IndexType: integers.Int8, ValueType: arrow.BinaryTypes.String}, texts},
	}
	decimals = []column{
		{"decimal_1_0", &arrow.Decimal128Type{Precision: 1}, `["9", "-9", "0", null, "1"]`},
		{"decimal_18_2", &arrow.Decimal128Type{Precision: 18, Scale: 2}, `["9999999999999999.99", "-9999999999999999.99", "0", null, "0.01"]`},
		{"decimal_38_0", &arrow.Decimal128Type{Precision: 38}, `["99999999999999999999999999999999999999", "-1", "0", null, "1"]`},
		{"decimal256", &arrow.Decimal256Type{Precision: 38}, `["99999999999999999999999999999999999999", "-1", "0", null, "1"]`},
	}
	half = []column{
		{"half", arrow.FixedWidthTypes.Float16, `[-0.0, 65504, 0.5, null, 1]`},
	}
	nothing = []column{
		{"nothing", arrow.Null, `[null, null, null, null, null]`},
	}
	largeDecimal = []column{
		{"large_decimal", &arrow.Decimal256Type{Precision: 76}, `["99999999999999999999999999999999999999", "-1", "0", null, "1"]`},
	}
	nested = []column{
		{"list", arrow.ListOf(integers.Int32), `[[], [null], [1, 2], null, [3]]`},
		{"pairs", arrow.FixedSizeListOf(2, integers.Int32), `[[1, 2], [null, 3], [0, 0], [4, 5], [6, 7]]`},
		{"nested", arrow.ListOf(arrow.ListOf(integers.Int32)), `[[], [null], [[1], []], null, [[null]]]`},
		{"struct", fields, `[{"a": 1, "b": "x"}, {"a": null, "b": null}, {"a": 2, "b": ""}, null, {"a": 3, "b": "ä"}]`},
		{"structs", arrow.ListOf(fields), `[[], [null], [{"a": 1, "b": "x"}], null, [{"a": null, "b": null}]]`},
		{"map", arrow.MapOf(arrow.BinaryTypes.String, integers.Int32), `[[], [{"key": "a", "value": 1}], [{"key": "", "value": null}, {"key": "ä", "value": 2}], null, []]`},
	}
	others = []column{
		{"number", integers.Int32, `[0, 1, 2, 3, 4]`},
		{"uuid", extensions.NewUUIDType(), `["00112233-4455-6677-8899-aabbccddeeff", "00000000-0000-0000-0000-000000000000", null, null, "ffffffff-ffff-ffff-ffff-ffffffffffff"]`},
		{"bool8", extensions.NewBool8Type(), `[true, false, null, true, false]`},
	}
	names = []column{
		{"UPPER", integers.Int32, `[1, null]`}, {"with space", integers.Int32, `[1, null]`}, {"with.dot", integers.Int32, `[1, null]`},
		{"ünïcödé", integers.Int32, `[1, null]`}, {"a,b;c{d}(e)=f", integers.Int32, `[1, null]`}, {"2", integers.Int32, `[1, null]`},
	}
)

func times() []column {
	columns := []column{
		{"date", arrow.FixedWidthTypes.Date32, `["0001-01-01", "1582-10-14", "1582-10-15", null, "9999-12-31"]`},
		{"date64", arrow.FixedWidthTypes.Date64, `["0001-01-01", "1582-10-14", "1582-10-15", null, "9999-12-31"]`},
		{"time_ms", arrow.FixedWidthTypes.Time32ms, `["00:00:00", "23:59:59.999", "12:34:56", null, "00:00:01"]`},
		{"time_us", arrow.FixedWidthTypes.Time64us, `["00:00:00", "23:59:59.999999", "12:34:56", null, "00:00:01"]`},
		{"time_ns", arrow.FixedWidthTypes.Time64ns, `["00:00:00", "23:59:59.999999", "12:34:56", null, "00:00:01"]`},
	}
	for _, suffix := range []string{"", "_UTC", "_New_York"} {
		zone := zones[suffix]
		wide := `["0001-01-01 00:00:00", "1969-12-31 23:59:59", "1582-10-14 23:59:59", null, "9999-12-31 23:59:59"]`
		narrow := `["1677-09-22 00:00:00", "1969-12-31 23:59:59", "2024-03-10 02:30:00.123456", null, "2262-04-11 00:00:00"]`
		columns = append(columns,
			column{"timestamp_s" + suffix, &arrow.TimestampType{Unit: arrow.Second, TimeZone: zone}, wide},
			column{"timestamp_ms" + suffix, &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: zone}, wide},
			column{"timestamp_us" + suffix, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: zone}, wide},
			column{"timestamp_ns" + suffix, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: zone}, narrow})
	}
	return columns
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func record(columns []column) arrow.RecordBatch {
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, one := range columns {
		values, _, err := array.FromJSON(memory.DefaultAllocator, one.kind, strings.NewReader(one.values))
		if err != nil {
			panic(one.name + ": " + err.Error())
		}
		fields = append(fields, arrow.Field{Name: one.name, Type: one.kind, Nullable: true})
		arrays = append(arrays, values)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(arrays[0].Len()))
}

func write(directory, kind string, rows arrow.RecordBatch, options ...parquet.WriterProperty) {
	file, err := os.Create(filepath.Join(directory, name+kind+".parquet"))
	check(err)
	properties := pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema())
	writer, err := pqarrow.NewFileWriter(rows.Schema(), file, parquet.NewWriterProperties(options...), properties)
	check(err)
	check(writer.Write(rows))
	check(writer.Close())
}

func main() {
	directory := os.Args[1]
	second := []parquet.WriterProperty{
		parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithDictionaryDefault(false),
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithVersion(parquet.V2_LATEST),
	}
	kinds := map[string][]column{
		"primitives": primitives, "decimals": decimals, "nested": nested, "others": others, "half": half, "nothing": nothing, "large_decimal": largeDecimal, "names": names, "times": times(),
	}
	for kind, columns := range kinds {
		write(directory, kind, record(columns), parquet.WithCompression(compress.Codecs.Snappy))
	}
	write(directory, "primitives_v2", record(primitives), second...)
	write(directory, "times_v2", record(times()), second...)
	write(directory, "without_rows", record(primitives).NewSlice(0, 0))
	for codec, kind := range map[string]compress.Compression{
		"uncompressed": compress.Codecs.Uncompressed, "gzip": compress.Codecs.Gzip, "lz4_raw": compress.Codecs.Lz4Raw,
	} {
		write(directory, codec, record(primitives), parquet.WithCompression(kind))
	}
	write(directory, "brotli", record(names), parquet.WithCompression(compress.Codecs.Brotli))
	options := []parquet.WriterProperty{parquet.WithDictionaryDefault(false), parquet.WithVersion(parquet.V2_LATEST)}
	for column, encoding := range map[string]parquet.Encoding{
		"int32": parquet.Encodings.DeltaBinaryPacked, "int64": parquet.Encodings.DeltaBinaryPacked,
		"float": parquet.Encodings.ByteStreamSplit, "double": parquet.Encodings.ByteStreamSplit,
		"text": parquet.Encodings.DeltaByteArray, "binary": parquet.Encodings.DeltaLengthByteArray,
	} {
		options = append(options, parquet.WithEncodingFor(column, encoding))
	}
	write(directory, "encodings", record(primitives), options...)
	file, err := os.Create(filepath.Join(directory, name+"primitives.arrow"))
	check(err)
	rows := record(primitives)
	writer, err := ipc.NewFileWriter(file, ipc.WithSchema(rows.Schema()), ipc.WithLZ4())
	check(err)
	check(writer.Write(rows))
	check(writer.Close())
	check(file.Close())
}
