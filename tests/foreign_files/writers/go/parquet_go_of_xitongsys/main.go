// Command parquet_go_of_xitongsys writes files with github.com/xitongsys/parquet-go. The argument is their directory.
package main

import (
	"os"
	"path/filepath"

	"github.com/xitongsys/parquet-go-source/local"
	"github.com/xitongsys/parquet-go/parquet"
	"github.com/xitongsys/parquet-go/writer"
)

const name = "parquet_go_of_xitongsys-1.6.2-"

type row struct {
	Boolean     *bool            `parquet:"name=boolean, type=BOOLEAN"`
	Int8        *int32           `parquet:"name=int8, type=INT32, convertedtype=INT_8"`
	Int16       *int32           `parquet:"name=int16, type=INT32, convertedtype=INT_16"`
	Int32       *int32           `parquet:"name=int32, type=INT32, convertedtype=INT_32, encoding=DELTA_BINARY_PACKED"`
	Int64       *int64           `parquet:"name=int64, type=INT64, convertedtype=INT_64"`
	Uint8       *int32           `parquet:"name=uint8, type=INT32, convertedtype=UINT_8"`
	Uint32      *int32           `parquet:"name=uint32, type=INT32, convertedtype=UINT_32"`
	Uint64      *int64           `parquet:"name=uint64, type=INT64, convertedtype=UINT_64"`
	Float       *float32         `parquet:"name=float, type=FLOAT"`
	Double      *float64         `parquet:"name=double, type=DOUBLE"`
	Bytes       *string          `parquet:"name=bytes, type=BYTE_ARRAY"`
	Text        *string          `parquet:"name=text, type=BYTE_ARRAY, convertedtype=UTF8, encoding=PLAIN_DICTIONARY"`
	Fixed       string           `parquet:"name=fixed, type=FIXED_LEN_BYTE_ARRAY, length=3"`
	Date        *int32           `parquet:"name=date, type=INT32, convertedtype=DATE"`
	TimeMs      *int32           `parquet:"name=time_ms, type=INT32, convertedtype=TIME_MILLIS"`
	TimeUs      *int64           `parquet:"name=time_us, type=INT64, convertedtype=TIME_MICROS"`
	TimestampMs *int64           `parquet:"name=timestamp_ms, type=INT64, convertedtype=TIMESTAMP_MILLIS"`
	TimestampUs *int64           `parquet:"name=timestamp_us, type=INT64, convertedtype=TIMESTAMP_MICROS"`
	Local       *int64           `parquet:"name=local_us, type=INT64, logicaltype=TIMESTAMP, logicaltype.isadjustedtoutc=false, logicaltype.unit=MICROS"`
	Decimal1    *int32           `parquet:"name=decimal_int32, type=INT32, convertedtype=DECIMAL, scale=2, precision=9"`
	Decimal2    *int64           `parquet:"name=decimal_int64, type=INT64, convertedtype=DECIMAL, scale=2, precision=18"`
	Decimal3    string           `parquet:"name=decimal_fixed, type=FIXED_LEN_BYTE_ARRAY, convertedtype=DECIMAL, scale=2, precision=10, length=12"`
	Decimal4    string           `parquet:"name=decimal_bytes, type=BYTE_ARRAY, convertedtype=DECIMAL, scale=2, precision=20"`
	List        []int32          `parquet:"name=list, type=LIST, valuetype=INT32"`
	Texts       []string         `parquet:"name=texts, type=LIST, valuetype=BYTE_ARRAY, valueconvertedtype=UTF8"`
	Map         map[string]int32 `parquet:"name=map, type=MAP, keytype=BYTE_ARRAY, keyconvertedtype=UTF8, valuetype=INT32"`
	Repeated    []int32          `parquet:"name=repeated, type=INT32, repetitiontype=REPEATED"`
}

type interval struct {
	Interval string `parquet:"name=interval, type=FIXED_LEN_BYTE_ARRAY, convertedtype=INTERVAL, length=12"`
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func to[T any](value T) *T {
	return &value
}

func rows() []row {
	return []row{
		{Fixed: "abc", Decimal3: "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", Decimal4: "\x00"},
		{to(true), to(int32(-128)), to(int32(32767)), to(int32(-2147483648)), to(int64(-9223372036854775808)), to(int32(255)),
			to(int32(-1)), to(int64(-1)), to(float32(-1.5)), to(1e308), to("\xff\xfe"), to("Grüße 漢字 😀"), "\x00\x01\x02",
			to(int32(-719162)), to(int32(86399999)), to(int64(86399999999)), to(int64(-62135596800000)), to(int64(253402300799999999)),
			to(int64(-1)), to(int32(-999999999)), to(int64(999999999999999999)),
			"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", "\x01\x00", []int32{1, 2}, []string{"", "ä"}, map[string]int32{"a": 1}, []int32{3}},
	}
}

func write[T any](directory, kind string, codec parquet.CompressionCodec, values []T) {
	file, err := local.NewLocalFileWriter(filepath.Join(directory, name+kind+".parquet"))
	check(err)
	target, err := writer.NewParquetWriter(file, new(T), 1)
	check(err)
	target.CompressionType = codec
	for _, value := range values {
		check(target.Write(value))
	}
	check(target.WriteStop())
	check(file.Close())
}

func main() {
	directory := os.Args[1]
	write(directory, "types", parquet.CompressionCodec_SNAPPY, rows())
	write(directory, "gzip", parquet.CompressionCodec_GZIP, rows())
	write(directory, "zstd", parquet.CompressionCodec_ZSTD, rows())
	write(directory, "lz4_raw", parquet.CompressionCodec_LZ4_RAW, rows())
	write(directory, "without_rows", parquet.CompressionCodec_SNAPPY, []row{})
	write(directory, "interval", parquet.CompressionCodec_SNAPPY, []interval{{"\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00"}})
}
