// Writes files with hyparquet-writer. The argument is their directory.
import { join } from "node:path";
import { parquetWriteFile } from "hyparquet-writer";

const directory = process.argv[2];
const point = (x, y) => ({ type: "Point", coordinates: [x, y] });
const times = [new Date(0), new Date(-1), new Date("0001-01-01T00:00:00Z"), null, new Date("9999-12-31T23:59:59.999Z")];

const primitives = [
  { name: "boolean", type: "BOOLEAN", data: [true, false, null, true, false] },
  { name: "int32", type: "INT32", data: [-2147483648, 2147483647, 0, null, 1] },
  { name: "int64", type: "INT64", data: [-9223372036854775808n, 9223372036854775807n, 0n, null, 1n] },
  { name: "float", type: "FLOAT", data: [-0.0, NaN, Infinity, null, 0.5] },
  { name: "double", type: "DOUBLE", data: [-0.0, NaN, -Infinity, null, 5e-324] },
  { name: "text", type: "STRING", data: ["", " ", "Grüße 漢字 😀", null, "a\nb"] },
  { name: "bytes", type: "BYTE_ARRAY", data: [new Uint8Array(0), new Uint8Array([255, 254]), new Uint8Array([0]), null, new Uint8Array([1])] },
  { name: "json", type: "JSON", data: [{}, [1, "ä"], "text", null, 1] },
  { name: "timestamp", type: "TIMESTAMP", data: times },
  { name: "needed", type: "INT32", nullable: false, data: [1, 2, 3, 4, 5] },
];
const others = [
  { name: "uuid", type: "UUID", data: ["00112233-4455-6677-8899-aabbccddeeff", null, "ffffffff-ffff-ffff-ffff-ffffffffffff"] },
  { name: "geometry", type: "GEOMETRY", data: [point(1, 2), null, point(-1, 0)] },
  { name: "geography", type: "GEOGRAPHY", data: [point(1, 2), null, point(-1, 0)] },
  { name: "n", type: "INT32", data: [1, 2, 3] },
];
const half = [
  { name: "half", type: "FLOAT16", data: [-0.0, null, 65504] },
];
const variants = [
  { name: "variant", type: "VARIANT", data: [{ a: 1, b: ["x", null] }, null, "text"] },
  { name: "shredded", type: "VARIANT", shredding: { a: "INT32" }, data: [{ a: 1, b: "x" }, { a: "y" }, { c: true }] },
];
const encodings = [
  ["INT32", "DELTA_BINARY_PACKED", [-2147483648, 2147483647, 0]],
  ["INT64", "DELTA_BINARY_PACKED", [-1n, 1n, 0n]],
  ["INT32", "BYTE_STREAM_SPLIT", [-1, 1, 0]],
  ["FLOAT", "BYTE_STREAM_SPLIT", [-1.5, NaN, 0]],
  ["DOUBLE", "BYTE_STREAM_SPLIT", [-1.5, NaN, 0]],
  ["STRING", "DELTA_BYTE_ARRAY", ["", "Grüße", "Grüße 漢字"]],
  ["STRING", "DELTA_LENGTH_BYTE_ARRAY", ["", "Grüße", "Grüße 漢字"]],
  ["BOOLEAN", "RLE", [true, false, true]],
].map(([type, encoding, data]) => ({ name: `${type}_${encoding}`.toLowerCase(), type, encoding, data }));
const names = ["UPPER", "with space", "with.dot", "ünïcödé", "with`tick", "a,b;c{d}(e)=f", "2", "select"].map((name) => ({
  name,
  type: "INT32",
  data: [1, null],
}));
const types = [
  ["int8", "INT32", { converted_type: "INT_8" }, [-128, 127, null]],
  ["uint8", "INT32", { converted_type: "UINT_8" }, [255, 0, null]],
  ["uint16", "INT32", { converted_type: "UINT_16" }, [65535, 0, null]],
  ["date", "INT32", { converted_type: "DATE" }, [new Date("0001-01-01"), new Date("9999-12-31"), null]],
  ["decimal_int32", "INT32", { converted_type: "DECIMAL", precision: 9, scale: 2 }, [-1.25, 99999.5, null]],
  ["decimal_fixed", "FIXED_LEN_BYTE_ARRAY", { type_length: 4, converted_type: "DECIMAL", precision: 9, scale: 2 }, [-1.25, 99999.5, null]],
  ["enum", "BYTE_ARRAY", { converted_type: "ENUM" }, ["one", "two", null]],
  ["timestamp_us", "INT64", { logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MICROS" } }, [new Date(0), new Date(-1), null]],
  ["timestamp_ns", "INT64", { logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "NANOS" } }, [new Date(0), new Date(-1), null]],
  ["local_ms", "INT64", { logical_type: { type: "TIMESTAMP", isAdjustedToUTC: false, unit: "MILLIS" } }, [new Date(0), new Date(-1), null]],
];

function write(kind, columnData, options = {}) {
  const filename = join(directory, `hyparquet_writer-0.17.0-${kind}.parquet`);
  return parquetWriteFile({ filename, columnData, ...options });
}

await write("primitives", primitives);
await write("uncompressed", primitives, { codec: "UNCOMPRESSED" });
await write("others", others);
await write("half", half);
await write("variants", variants);
await write("encodings", encodings);
await write("names", names);
for (const [name, type, details, data] of types) {
  const schema = [
    { name: "root", num_children: 1 },
    { name, type, repetition_type: "OPTIONAL", ...details },
  ];
  try {
    await write(name, [{ name, data }], { schema });
  } catch (error) {
    console.log(name, error.message);
  }
}
const numbers = Array.from({ length: 2000 }, (_, n) => n);
const many = [
  { name: "n", type: "INT32", data: numbers, columnIndex: true },
  { name: "text", type: "STRING", data: numbers.map((n) => `text ${n % 50}`), bloomFilter: true, columnIndex: true },
];
await write("row_groups", many, { rowGroupSize: 700, pageSize: 1024 });
