// Command parquet_go writes files with github.com/parquet-go/parquet-go. The argument is their directory.
package main

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
)

const name = "parquet_go-0.32.0-"

type primitives struct {
	Number  int32    `parquet:"number"`
	Boolean *bool    `parquet:"boolean,optional"`
	Int8    *int8    `parquet:"int8,optional"`
	Int16   *int16   `parquet:"int16,optional"`
	Int32   *int32   `parquet:"int32,optional"`
	Int64   *int64   `parquet:"int64,optional"`
	Uint8   *uint8   `parquet:"uint8,optional"`
	Uint16  *uint16  `parquet:"uint16,optional"`
	Uint32  *uint32  `parquet:"uint32,optional"`
	Uint64  *uint64  `parquet:"uint64,optional"`
	Float   *float32 `parquet:"float,optional"`
	Double  *float64 `parquet:"double,optional"`
	Text    *string  `parquet:"text,optional"`
	Bytes   []byte   `parquet:"bytes,optional"`
	Fixed   [3]byte  `parquet:"fixed"`
}

type encodings struct {
	Deltas  int32   `parquet:"deltas,delta,zstd"`
	Longs   int64   `parquet:"longs,delta,snappy"`
	Split   float64 `parquet:"split,split"`
	Lengths string  `parquet:"lengths,delta,gzip"`
	Words   string  `parquet:"words,dict,zstd"`
	Lz4     string  `parquet:"lz4,lz4"`
	Plain   string  `parquet:"plain,plain,uncompressed"`
}

type times struct {
	Date  int32     `parquet:"date,date"`
	Ms    int64     `parquet:"timestamp_ms,timestamp(millisecond)"`
	Us    int64     `parquet:"timestamp_us,timestamp(microsecond)"`
	Ns    int64     `parquet:"timestamp_ns,timestamp(nanosecond)"`
	Local int64     `parquet:"local_us,timestamp(microsecond:local)"`
	Time  time.Time `parquet:"time,timestamp(microsecond)"`
	Clock int32     `parquet:"time_ms,time(millisecond)"`
	Micro int64     `parquet:"time_us,time(microsecond)"`
}

type others struct {
	Number int32    `parquet:"number"`
	UUID   [16]byte `parquet:"uuid,uuid"`
	JSON   string   `parquet:"json,json"`
	Enum   string   `parquet:"enum,enum"`
	Small  int32    `parquet:"decimal_9_2,decimal(2:9)"`
	Large  int64    `parquet:"decimal_18_3,decimal(3:18)"`
	Fixed  [16]byte `parquet:"decimal_38_10,decimal(10:38)"`
}

type inner struct {
	X *int32 `parquet:"x,optional"`
	Y string `parquet:"y"`
}

type nested struct {
	Number   int32            `parquet:"number"`
	Repeated []int32          `parquet:"repeated"`
	List     []int32          `parquet:"list,list"`
	Texts    []string         `parquet:"texts,list,optional"`
	Struct   *inner           `parquet:"struct,optional"`
	Groups   []inner          `parquet:"groups"`
	Structs  []inner          `parquet:"structs,list"`
	Map      map[string]int64 `parquet:"map"`
	ByNumber map[int32]inner  `parquet:"map_of_structs"`
}

type names struct {
	Upper   int32
	Space   int32 `parquet:"with space"`
	Dot     int32 `parquet:"with.dot"`
	Unicode int32 `parquet:"ünïcödé"`
	Digit   int32 `parquet:"2"`
	Select  int32 `parquet:"select"`
}

type many struct {
	Number int64  `parquet:"n"`
	Text   string `parquet:"text,dict"`
}

func write[T any](directory, kind string, rows []T, options ...parquet.WriterOption) {
	file, err := os.Create(filepath.Join(directory, name+kind+".parquet"))
	check(err)
	options = append(options, parquet.CreatedBy("parquet-go", "0.32.0", ""))
	writer := parquet.NewGenericWriter[T](file, options...)
	for first := 0; first < len(rows); first += 500 {
		_, err = writer.Write(rows[first:min(first+500, len(rows))])
		check(err)
		if first+500 < len(rows) {
			check(writer.Flush())
		}
	}
	check(writer.Close())
	check(file.Close())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func to[T any](value T) *T {
	return &value
}

func primitiveRows() []primitives {
	return []primitives{
		{0, to(true), to(int8(math.MinInt8)), to(int16(math.MinInt16)), to(int32(math.MinInt32)), to(int64(math.MinInt64)),
			to(uint8(math.MaxUint8)), to(uint16(math.MaxUint16)), to(uint32(math.MaxUint32)), to(uint64(math.MaxUint64)),
			to(float32(math.NaN())), to(math.NaN()), to(""), []byte{}, [3]byte{}},
		{1, to(false), to(int8(math.MaxInt8)), to(int16(math.MaxInt16)), to(int32(math.MaxInt32)), to(int64(math.MaxInt64)),
			to(uint8(128)), to(uint16(32768)), to(uint32(1 << 31)), to(uint64(1 << 63)),
			to(float32(math.Copysign(0, -1))), to(math.Copysign(0, -1)), to("Grüße 漢字 😀"), []byte{255, 254}, [3]byte{255, 255, 255}},
		{2, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, [3]byte{'a', 'b', 'c'}},
		{3, to(true), to(int8(0)), to(int16(0)), to(int32(0)), to(int64(0)), to(uint8(0)), to(uint16(0)), to(uint32(0)), to(uint64(0)),
			to(float32(math.Inf(1))), to(math.Inf(-1)), to("a\nb"), []byte{0}, [3]byte{' ', ' ', ' '}},
		{4, to(true), to(int8(1)), to(int16(1)), to(int32(1)), to(int64(1)), to(uint8(1)), to(uint16(1)), to(uint32(1)), to(uint64(1)),
			to(float32(math.SmallestNonzeroFloat32)), to(math.MaxFloat64), to(" "), []byte("x"), [3]byte{1, 2, 3}},
	}
}

func main() {
	directory := os.Args[1]
	write(directory, "primitives", primitiveRows())
	write(directory, "primitives_v1", primitiveRows(), parquet.DataPageVersion(1), parquet.Compression(&parquet.Gzip))
	write(directory, "without_rows", []primitives{})
	write(directory, "encodings", []encodings{
		{math.MinInt32, math.MinInt64, math.NaN(), "", "one", "", ""},
		{math.MaxInt32, math.MaxInt64, math.Copysign(0, -1), "Grüße 漢字 😀", "two", "x", "y"},
		{0, 0, 0, "Grüße", "one", "漢", "字"},
	})
	write(directory, "brotli", []many{{1, "one"}, {2, "two"}}, parquet.Compression(&parquet.Brotli))
	micros := []int64{-62135596800000000, -12219292800000001, -1, 0, 1710037800123456, 253402300799999999}
	days := []int32{-719162, -141428, -1, 0, 19792, 2932896}
	var timeRows []times
	for row, micro := range micros {
		nanos := max(-9223372036854775, min(micro, 9223372036854775)) * 1000
		timeRows = append(timeRows, times{days[row], micro / 1000, micro, nanos, micro, time.UnixMicro(micro).UTC(), int32(row), 86399999999})
	}
	write(directory, "times", timeRows)
	write(directory, "others", []others{
		{0, [16]byte{}, "{}", "one", 999999999, 999999999999999999, [16]byte{15: 1}},
		{1, [16]byte{0: 255, 15: 255}, "[1, \"ä\"]", "two", -999999999, -999999999999999999, [16]byte{0: 255, 15: 255}},
	})
	write(directory, "nested", []nested{
		{0, nil, nil, nil, nil, nil, nil, nil, nil},
		{1, []int32{1, 2}, []int32{3}, []string{"", "ä"}, &inner{nil, ""}, []inner{{to(int32(1)), "x"}, {nil, "y"}},
			[]inner{{nil, "z"}}, map[string]int64{"a": 1}, map[int32]inner{7: {nil, "v"}}},
		{2, []int32{}, []int32{}, []string{}, &inner{to(int32(5)), "w"}, []inner{}, []inner{}, map[string]int64{}, map[int32]inner{}},
	})
	write(directory, "names", []names{{1, 2, 3, 4, 5, 6}, {}})
	var numbered []many
	for n := range int64(1500) {
		numbered = append(numbered, many{n, "text " + strconv.FormatInt(n%50, 10)})
	}
	blooms := parquet.BloomFilters(parquet.SplitBlockFilter(10, "text"))
	write(directory, "row_groups", numbered, blooms, parquet.PageBufferSize(1024), parquet.Compression(&parquet.Zstd))
}
