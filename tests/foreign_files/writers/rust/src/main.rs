//! Writes files with the Rust libraries of Parquet, ORC and Arrow. The argument is their directory.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::*;
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use half::f16;
use orc_rust::ArrowWriterBuilder;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type as Int32, Int96, Int96Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

type Anything<T> = Result<T, Box<dyn Error>>;
type Columns = Vec<(String, ArrayRef)>;

const PARQUET: &str = "arrow_rs-59.3.2";
const ORC: &str = "orc_rust-0.9.0";
const TEXTS: [Option<&str>; 6] = [
    Some(""),
    Some(" "),
    Some("Grüße 漢字 😀"),
    None,
    Some("a\nb"),
    Some("a much longer text than twelve bytes"),
];
const BYTES: [Option<&[u8]>; 6] = [
    Some(b""),
    Some(b"\0"),
    Some(b"\xff\xfe"),
    None,
    Some(b"abc"),
    Some(b"more than twelve bytes"),
];
const DAYS: [Option<i32>; 6] = [
    Some(-719162),
    Some(-141428),
    Some(-141427),
    None,
    Some(0),
    Some(2932896),
];
const MICROS: [Option<i64>; 6] = [
    Some(-62_135_596_800_000_000),
    Some(-12_219_292_800_000_001),
    Some(-1),
    None,
    Some(1_710_037_800_123_456),
    Some(253_402_300_799_999_999),
];
const NANOS: [Option<i64>; 6] = [
    Some(-9_223_372_036_854_775_000),
    Some(-1000),
    Some(0),
    None,
    Some(1_710_037_800_123_456_000),
    Some(9_223_372_036_854_775_000),
];

macro_rules! edges {
    ($name:literal, $array:ident, $native:ident) => {
        (
            $name.to_string(),
            Arc::new($array::from(vec![
                Some($native::MIN),
                Some($native::MAX),
                Some(0 as $native),
                None,
                Some(1 as $native),
                Some(7 as $native),
            ])) as ArrayRef,
        )
    };
}

fn column(name: &str, array: impl Array + 'static) -> (String, ArrayRef) {
    (name.to_string(), Arc::new(array))
}

fn table(columns: Columns) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn signed() -> Columns {
    vec![
        column(
            "boolean",
            BooleanArray::from(vec![
                Some(true),
                Some(false),
                None,
                Some(true),
                None,
                Some(false),
            ]),
        ),
        edges!("int8", Int8Array, i8),
        edges!("int16", Int16Array, i16),
        edges!("int32", Int32Array, i32),
        edges!("int64", Int64Array, i64),
        column(
            "float",
            Float32Array::from(vec![
                Some(-0.0),
                Some(f32::NAN),
                Some(f32::INFINITY),
                None,
                Some(f32::MIN),
                Some(f32::MIN_POSITIVE),
            ]),
        ),
        column(
            "double",
            Float64Array::from(vec![
                Some(-0.0),
                Some(f64::NAN),
                Some(f64::NEG_INFINITY),
                None,
                Some(f64::MAX),
                Some(5e-324),
            ]),
        ),
        column("text", StringArray::from(TEXTS.to_vec())),
        column("binary", BinaryArray::from(BYTES.to_vec())),
    ]
}

fn primitives() -> Columns {
    let mut columns = signed();
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        [
            Some(b"abc"),
            Some(b"\0\0\0"),
            Some(b"\xff\xff\xff"),
            None,
            Some(b"   "),
            None,
        ]
        .into_iter(),
        3,
    );
    columns.extend([
        edges!("uint8", UInt8Array, u8),
        edges!("uint16", UInt16Array, u16),
        edges!("uint32", UInt32Array, u32),
        edges!("uint64", UInt64Array, u64),
        column("large_text", LargeStringArray::from(TEXTS.to_vec())),
        column("text_view", StringViewArray::from(TEXTS.to_vec())),
        column("large_binary", LargeBinaryArray::from(BYTES.to_vec())),
        column("binary_view", BinaryViewArray::from(BYTES.to_vec())),
        column("fixed", fixed.unwrap()),
        column(
            "dictionary",
            TEXTS
                .iter()
                .copied()
                .collect::<DictionaryArray<Int16Type>>(),
        ),
    ]);
    columns
}

/// The largest number of some digits.
fn high(digits: u32) -> i128 {
    10_i128.pow(digits) - 1
}

/// Columns of types that Spark does not have.
fn others() -> [(&'static str, Columns); 3] {
    [
        (
            "half",
            vec![column(
                "half",
                Float16Array::from(vec![
                    Some(f16::NEG_ZERO),
                    Some(f16::NAN),
                    Some(f16::INFINITY),
                    None,
                    Some(f16::MIN),
                    Some(f16::MIN_POSITIVE_SUBNORMAL),
                ]),
            )],
        ),
        ("nothing", vec![column("nothing", NullArray::new(6))]),
        (
            "large_decimal",
            vec![column(
                "large_decimal",
                Decimal256Array::from(vec![
                    Some(i256::from_i128(high(38))),
                    Some(i256::ONE),
                    None,
                    None,
                    None,
                    None,
                ])
                .with_precision_and_scale(76, 0)
                .unwrap(),
            )],
        ),
    ]
}

fn decimals() -> Columns {
    let mut columns = vec![
        column(
            "decimal32",
            Decimal32Array::from(vec![
                Some(999_999_999),
                Some(-999_999_999),
                Some(0),
                None,
                Some(1),
                Some(-1),
            ])
            .with_precision_and_scale(9, 2)
            .unwrap(),
        ),
        column(
            "decimal64",
            Decimal64Array::from(vec![
                Some(high(18) as i64),
                Some(-high(18) as i64),
                Some(0),
                None,
                Some(1),
                Some(-1),
            ])
            .with_precision_and_scale(18, 18)
            .unwrap(),
        ),
        column(
            "decimal256",
            Decimal256Array::from(vec![
                Some(i256::from_i128(high(38))),
                Some(i256::ONE),
                None,
                None,
                None,
                None,
            ])
            .with_precision_and_scale(38, 0)
            .unwrap(),
        ),
    ];
    for (precision, scale) in [(1, 0), (9, 2), (18, 0), (19, 5), (38, 0), (38, 38)] {
        let values = vec![
            Some(high(precision as u32)),
            Some(-high(precision as u32)),
            Some(0),
            None,
            Some(1),
            Some(-1),
        ];
        let array = Decimal128Array::from(values)
            .with_precision_and_scale(precision, scale)
            .unwrap();
        columns.push(column(&format!("decimal_{precision}_{scale}"), array));
    }
    columns
}

fn divided(values: [Option<i64>; 6], by: i64) -> Vec<Option<i64>> {
    values
        .iter()
        .map(|value| value.map(|value| value.div_euclid(by)))
        .collect()
}

fn times() -> Columns {
    let mut columns = vec![
        column("date", Date32Array::from(DAYS.to_vec())),
        column(
            "date64",
            Date64Array::from(
                DAYS.iter()
                    .map(|day| day.map(|day| i64::from(day) * 86_400_000))
                    .collect::<Vec<_>>(),
            ),
        ),
        column(
            "time_s",
            Time32SecondArray::from(vec![Some(0), Some(86_399), None, Some(1), None, None]),
        ),
        column(
            "time_ms",
            Time32MillisecondArray::from(vec![
                Some(0),
                Some(86_399_999),
                None,
                Some(1),
                None,
                None,
            ]),
        ),
        column(
            "time_us",
            Time64MicrosecondArray::from(vec![
                Some(0),
                Some(86_399_999_999),
                None,
                Some(1),
                None,
                None,
            ]),
        ),
        column(
            "time_ns",
            Time64NanosecondArray::from(vec![
                Some(0),
                Some(86_399_999_999_000),
                None,
                Some(1000),
                None,
                None,
            ]),
        ),
    ];
    for zone in [None, Some("UTC"), Some("America/New_York"), Some("+02:30")] {
        let name = |unit: &str| zone.map_or(unit.to_string(), |zone| format!("{unit}_{zone}"));
        columns.extend([
            column(
                &name("timestamp_s"),
                TimestampSecondArray::from(divided(MICROS, 1_000_000)).with_timezone_opt(zone),
            ),
            column(
                &name("timestamp_ms"),
                TimestampMillisecondArray::from(divided(MICROS, 1_000)).with_timezone_opt(zone),
            ),
            column(
                &name("timestamp_us"),
                TimestampMicrosecondArray::from(MICROS.to_vec()).with_timezone_opt(zone),
            ),
            column(
                &name("timestamp_ns"),
                TimestampNanosecondArray::from(NANOS.to_vec()).with_timezone_opt(zone),
            ),
        ]);
    }
    columns
}

fn durations() -> Columns {
    vec![
        column(
            "duration_s",
            DurationSecondArray::from(vec![Some(0), Some(-1), None]),
        ),
        column(
            "duration_ms",
            DurationMillisecondArray::from(vec![Some(0), Some(-1), None]),
        ),
        column(
            "duration_us",
            DurationMicrosecondArray::from(vec![Some(0), Some(-1), None]),
        ),
        column(
            "duration_ns",
            DurationNanosecondArray::from(vec![Some(0), Some(-1000), None]),
        ),
        column("n", Int32Array::from(vec![1, 2, 3])),
    ]
}

fn intervals() -> Columns {
    vec![
        column(
            "months",
            IntervalYearMonthArray::from(vec![Some(1), Some(-14), None]),
        ),
        column(
            "days",
            IntervalDayTimeArray::from(vec![
                Some(IntervalDayTime::new(1, 2)),
                Some(IntervalDayTime::new(-1, -2)),
                None,
            ]),
        ),
        column("n", Int32Array::from(vec![1, 2, 3])),
    ]
}

fn nested() -> Columns {
    let numbers = || {
        vec![
            Some(vec![]),
            Some(vec![None]),
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![Some(-1), None]),
            Some(vec![Some(i32::MAX)]),
        ]
    };
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(numbers());
    let offsets = OffsetBuffer::from_lengths([0, 1, 2, 0, 3, 0]);
    let valid = NullBuffer::from(vec![true, true, true, false, true, true]);
    let field = Arc::new(Field::new_list_field(list.data_type().clone(), true));
    let lists = ListArray::new(
        field,
        offsets.clone(),
        Arc::new(list.clone()),
        Some(valid.clone()),
    );
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
    ]);
    let members: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![
            Some(1),
            None,
            Some(3),
            None,
            Some(5),
            Some(6),
        ])),
        Arc::new(StringArray::from(TEXTS.to_vec())),
    ];
    let structs = StructArray::new(fields.clone(), members, Some(valid.clone()));
    let field = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    let list_of_structs = ListArray::new(field, offsets, Arc::new(structs.clone()), Some(valid));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for (row, entries) in [
        vec![],
        vec![("a", Some(1))],
        vec![("", None), ("ä", Some(2))],
        vec![],
        vec![("x", Some(0))],
        vec![],
    ]
    .into_iter()
    .enumerate()
    {
        for (key, value) in entries {
            map.keys().append_value(key);
            map.values().append_option(value);
        }
        map.append(row != 3).unwrap();
    }
    let pairs = vec![
        Some(vec![Some(1), Some(2)]),
        Some(vec![None, None]),
        None,
        Some(vec![Some(0), Some(0)]),
        None,
        None,
    ];
    vec![
        column("list", list),
        column(
            "large_list",
            LargeListArray::from_iter_primitive::<Int32Type, _, _>(numbers()),
        ),
        column(
            "pairs",
            FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(pairs, 2),
        ),
        column("nested", lists),
        column("struct", structs),
        column("structs", list_of_structs),
        column("map", map.finish()),
    ]
}

fn names() -> Columns {
    let numbers = || Int32Array::from(vec![Some(1), None, Some(3)]);
    [
        "UPPER",
        "with space",
        "with.dot",
        "ünïcödé",
        "with`tick",
        "a,b;c{d}(e)=f",
        "2",
        "select",
    ]
    .iter()
    .map(|name| column(name, numbers()))
    .collect()
}

fn many() -> Columns {
    vec![
        column("n", Int64Array::from_iter_values(0..2000)),
        column(
            "text",
            StringArray::from_iter_values((0..2000).map(|n| format!("text {}", n % 50))),
        ),
    ]
}

fn write_parquet(path: PathBuf, columns: Columns, properties: WriterProperties) -> Anything<()> {
    let batch = table(columns);
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

fn write_ipc(path: PathBuf, columns: Columns) -> Anything<()> {
    let batch = table(columns);
    let mut writer = FileWriter::try_new(File::create(path)?, &batch.schema())?;
    writer.write(&batch)?;
    writer.finish()?;
    Ok(())
}

fn write_orc(path: PathBuf, columns: Columns) -> Anything<()> {
    let batch = table(columns);
    let mut writer = ArrowWriterBuilder::new(File::create(path)?, batch.schema()).try_build()?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

/// Writes types that no type of Arrow has.
fn write_logical_types(path: PathBuf) -> Anything<()> {
    let schema = parse_message_type(
        "message m { optional binary enum (ENUM); optional binary json (JSON); optional binary bson (BSON); \
         optional int96 int96; required int32 n; }",
    )?;
    let mut writer = SerializedFileWriter::new(
        File::create(path)?,
        Arc::new(schema),
        Arc::new(WriterProperties::new()),
    )?;
    let mut group = writer.next_row_group()?;
    let texts: [&[&str]; 3] = [
        &["one", "two"],
        &["{}", "[1, \"ä\"]"],
        &["\u{5}\0\0\0\0", "\u{5}\0\0\0\0"],
    ];
    for values in texts {
        let mut column = group.next_column()?.ok_or("no column")?;
        let values: Vec<ByteArray> = values.iter().map(|text| ByteArray::from(*text)).collect();
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, Some(&[1, 0, 1]), None)?;
        column.close()?;
    }
    let mut column = group.next_column()?.ok_or("no column")?;
    let mut first = Int96::new();
    first.set_data(0, 0, 2_440_588);
    column
        .typed::<Int96Type>()
        .write_batch(&[first], Some(&[1, 0, 0]), None)?;
    column.close()?;
    let mut column = group.next_column()?.ok_or("no column")?;
    column
        .typed::<Int32>()
        .write_batch(&[1, 2, 3], None, None)?;
    column.close()?;
    group.close()?;
    writer.close()?;
    Ok(())
}

fn main() -> Anything<()> {
    let directory = std::env::args().nth(1).ok_or("The directory is missing.")?;
    let directory = Path::new(&directory);
    let parquet = |kind: &str| directory.join(format!("{PARQUET}-{kind}.parquet"));
    let usual = || WriterProperties::builder().set_compression(Compression::SNAPPY);
    let second = || {
        usual()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_dictionary_enabled(false)
    };
    let kinds: [(&str, fn() -> Columns); 5] = [
        ("primitives", primitives),
        ("decimals", decimals),
        ("times", times),
        ("nested", nested),
        ("names", names),
    ];
    for (kind, columns) in kinds {
        write_parquet(parquet(kind), columns(), usual().build())?;
        write_parquet(parquet(&format!("{kind}_v2")), columns(), second().build())?;
    }
    for (kind, columns) in others()
        .into_iter()
        .chain([("durations", durations()), ("intervals", intervals())])
    {
        write_parquet(parquet(kind), columns, usual().build())?;
    }
    let encodings = HashMap::from([
        ("int32", Encoding::DELTA_BINARY_PACKED),
        ("int64", Encoding::BYTE_STREAM_SPLIT),
        ("float", Encoding::BYTE_STREAM_SPLIT),
        ("double", Encoding::BYTE_STREAM_SPLIT),
        ("text", Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ("binary", Encoding::DELTA_BYTE_ARRAY),
        ("boolean", Encoding::RLE),
    ]);
    let mut properties = second();
    for (name, encoding) in encodings {
        properties = properties.set_column_encoding(name.into(), encoding);
    }
    write_parquet(parquet("encodings"), signed(), properties.build())?;
    for (name, codec) in [
        ("uncompressed", Compression::UNCOMPRESSED),
        ("gzip", Compression::GZIP(GzipLevel::default())),
        ("lz4", Compression::LZ4),
        ("lz4_raw", Compression::LZ4_RAW),
        ("zstd", Compression::ZSTD(ZstdLevel::default())),
    ] {
        write_parquet(
            parquet(name),
            signed(),
            usual().set_compression(codec).build(),
        )?;
    }
    let brotli = usual().set_compression(Compression::BROTLI(BrotliLevel::default()));
    write_parquet(
        parquet("brotli"),
        many().into_iter().take(1).collect(),
        brotli.build(),
    )?;
    let small = usual()
        .set_max_row_group_row_count(Some(700))
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(50);
    write_parquet(parquet("row_groups"), many(), small.build())?;
    write_parquet(
        parquet("blooms"),
        many(),
        usual()
            .set_bloom_filter_enabled(true)
            .set_bloom_filter_max_ndv(50)
            .build(),
    )?;
    let without = usual().set_statistics_enabled(EnabledStatistics::None);
    write_parquet(parquet("without_statistics"), signed(), without.build())?;
    write_logical_types(parquet("logical_types"))?;

    for (kind, columns) in kinds.into_iter().filter(|(kind, _)| *kind != "times") {
        write_ipc(directory.join(format!("{PARQUET}-{kind}.arrow")), columns())?;
    }
    write_orc(directory.join(format!("{ORC}-primitives.orc")), signed())?;
    write_orc(directory.join(format!("{ORC}-row_groups.orc")), many())?;
    Ok(())
}
