// Writes files with @dsnp/parquetjs. The argument is their directory.
import { join } from "node:path";
import parquet from "@dsnp/parquetjs";

const directory = process.argv[2];
const types = {
  boolean: ["BOOLEAN", true, false],
  int8: ["INT_8", -128, 127],
  int16: ["INT_16", -32768, 32767],
  int32: ["INT32", -2147483648, 2147483647],
  int_32: ["INT_32", -2147483648, 2147483647],
  int64: ["INT64", -9007199254740991, 9007199254740991],
  int_64: ["INT_64", -9007199254740991, 9007199254740991],
  uint8: ["UINT_8", 0, 255],
  uint16: ["UINT_16", 0, 65535],
  uint32: ["UINT_32", 0, 2147483647],
  uint64: ["UINT_64", 0, 9007199254740991],
  float: ["FLOAT", -0.0, 0.5],
  double: ["DOUBLE", -0.0, 5e-324],
  int96: ["INT96", 0, 1],
  bytes: ["BYTE_ARRAY", Buffer.from([]), Buffer.from([255, 254])],
  text: ["UTF8", "", "Grüße 漢字 😀"],
  json: ["JSON", {}, { a: "ä" }],
  bson: ["BSON", {}, { a: 1 }],
  enum: ["ENUM", "one", "two"],
  date: ["DATE", new Date("1970-01-02"), new Date("9999-12-31")],
  time_ms: ["TIME_MILLIS", 0, 86399999],
  time_us: ["TIME_MICROS", 0, 86399999999],
  timestamp_ms: ["TIMESTAMP_MILLIS", new Date(0), new Date("9999-12-31T23:59:59.999Z")],
  timestamp_us: ["TIMESTAMP_MICROS", new Date(0), new Date("2024-03-10T02:30:00.123Z")],
  interval: ["INTERVAL", { months: 12, days: 1, milliseconds: 1 }, { months: 1, days: 2, milliseconds: 3 }],
};
const more = {
  fixed: { type: "FIXED_LEN_BYTE_ARRAY", typeLength: 3, optional: true },
  decimal_9_2: { type: "DECIMAL", precision: 9, scale: 2, optional: true },
  decimal_18_3: { type: "DECIMAL", precision: 18, scale: 3, optional: true },
  repeated: { type: "INT32", repeated: true },
  struct: { optional: true, fields: { a: { type: "INT32", optional: true }, b: { type: "UTF8" } } },
  groups: { repeated: true, fields: { a: { type: "INT32" }, b: { type: "UTF8", repeated: true } } },
  list: { type: "LIST", optional: true, fields: { list: { repeated: true, fields: { element: { type: "INT32" } } } } },
};
const rows = [
  {},
  {
    fixed: Buffer.from("abc"),
    decimal_9_2: -1.25,
    decimal_18_3: 99999.5,
    repeated: [1, 2],
    struct: { b: "x" },
    groups: [{ a: 1, b: ["", "ä"] }, { a: 2 }],
    list: { list: [{ element: 1 }, { element: 2 }] },
  },
];

async function write(kind, fields, values, options = {}) {
  const path = join(directory, `parquetjs-1.8.9-${kind}.parquet`);
  const writer = await parquet.ParquetWriter.openFile(new parquet.ParquetSchema(fields), path, options);
  for (const value of values) {
    await writer.appendRow(value);
  }
  await writer.close();
}

function columns(names, options = {}) {
  return Object.fromEntries(names.map((name) => [name, { type: types[name][0], optional: true, ...options }]));
}

function values(names) {
  return [1, 2].map((row) => Object.fromEntries(names.map((name) => [name, types[name][row]])));
}

const all = Object.keys(types).filter((name) => name !== "interval" && name !== "int96");
const common = ["boolean", "int32", "int64", "double", "text", "timestamp_ms"];
for (const useDataPageV2 of [true, false]) {
  const version = useDataPageV2 ? "v2" : "v1";
  await write(`types_${version}`, columns(all), [...values(all), {}], { useDataPageV2 });
  await write(`nested_${version}`, more, rows, { useDataPageV2 });
}
for (const compression of ["GZIP", "SNAPPY", "BROTLI"]) {
  await write(compression.toLowerCase(), columns(common, { compression }), values(common));
}
await write("int96", columns(["int96"]), values(["int96"]));
await write("interval", columns(["interval"]), values(["interval"]));
await write("without_rows", columns(common), []);
const many = Array.from({ length: 1500 }, (_, n) => ({ n, text: `text ${n % 50}` }));
await write("row_groups", { n: { type: "INT64" }, text: { type: "UTF8", compression: "GZIP" } }, many, { rowGroupSize: 500 });
