"""Row digest and column facts of Arrow rows under an Iceberg schema; the canonical text is described in testdata/reference/README.md."""

import datetime
import hashlib
import json
import math
import struct
import uuid

import pyarrow as pa
from pyiceberg.expressions.literals import FloatLiteral
from pyiceberg.types import (
    BinaryType, BooleanType, DateType, DecimalType, DoubleType, FixedType, FloatType, IntegerType, ListType, LongType, MapType, StringType,
    StructType, TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType, TimeType, UUIDType,
)

NULL = "null"


def quote(text):
    out = ['"']
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif c < " ":
            out.append(f"\\u{ord(c):04x}")
        else:
            out.append(c)
    out.append('"')
    return "".join(out)


def spell(typ, value):
    """The canonical text of a primitive value in Python's form."""
    if value is None:
        return NULL
    if isinstance(typ, BooleanType):
        return "true" if value else "false"
    if isinstance(typ, FloatType):
        return '"0x7fc00000"' if math.isnan(value) else '"0x' + struct.pack(">f", value).hex() + '"'
    if isinstance(typ, DoubleType):
        return '"0x7ff8000000000000"' if math.isnan(value) else '"0x' + struct.pack(">d", value).hex() + '"'
    if isinstance(typ, DecimalType):
        return f'"{value:.{typ.scale}f}"'
    if isinstance(typ, StringType):
        return quote(value)
    if isinstance(typ, UUIDType):
        return f'"{value}"'
    if isinstance(typ, (FixedType, BinaryType)):
        return f'"{value.hex()}"'
    return str(value)


def order(typ, value):
    if isinstance(typ, (FloatType, DoubleType)):
        return (value, math.copysign(1, value))
    if isinstance(typ, StringType):
        return value.encode()
    if isinstance(typ, UUIDType):
        return str(value)
    return value


class Leaf:
    """Values of one leaf column."""

    def __init__(self, typ):
        self.typ, self.values, self.nulls, self.nan = typ, 0, 0, 0
        self.min = self.max = None
        self.count = {}

    def see(self, values):
        for v in values:
            self.values += 1
            if v is None:
                self.nulls += 1
            elif isinstance(v, float) and math.isnan(v):
                self.nan += 1
            else:
                self.count[v] = self.count.get(v, 0) + 1  # -0.0 and 0.0 are one key, as in SQL
                key = order(self.typ, v)
                if self.min is None or key < order(self.typ, self.min):
                    self.min = v
                if self.max is None or key > order(self.typ, self.max):
                    self.max = v

    def hits(self, value):
        return self.count[value]

    def literal(self, value):
        """The value as PyIceberg's expressions take it."""
        if isinstance(self.typ, DateType):
            return (datetime.date(1970, 1, 1) + datetime.timedelta(days=value)).isoformat()
        if isinstance(self.typ, FloatType):
            return FloatLiteral(value)  # from a plain float, infinity becomes "above the largest"
        return value

    def facts(self):
        text = lambda v: "" if v is None else spell(self.typ, v)
        return {"Values": self.values, "Nulls": self.nulls, "NaN": self.nan, "Min": text(self.min), "Max": text(self.max)}


INTEGERS = {
    DateType: pa.int32(), TimeType: pa.int64(), TimestampType: pa.int64(), TimestamptzType: pa.int64(), TimestampNanoType: pa.int64(),
    TimestamptzNanoType: pa.int64(),
}
UNITS = {TimeType: "us", TimestampType: "us", TimestamptzType: "us", TimestampNanoType: "ns", TimestamptzNanoType: "ns"}


def plain(typ, array):
    """A primitive array as Python values: integers for dates, times and timestamps in Iceberg's unit."""
    if type(typ) in UNITS and array.type.unit != UNITS[type(typ)]:
        raise ValueError(f"{typ} came as {array.type}")
    if type(typ) in INTEGERS:
        array = array.cast(INTEGERS[type(typ)])
    values = array.to_pylist()
    if isinstance(typ, UUIDType) and values:
        values = [uuid.UUID(bytes=v) if isinstance(v, bytes) else v for v in values]
    return values


class Facts:
    def __init__(self):
        self.leaves, self.names, self.sum, self.rows, self.texts = {}, [], 0, 0, []

    def column(self, name, typ, array):
        """Add a column's values to its leaves and return its canonical texts."""
        if isinstance(typ, StructType):
            parts = [self.column(f"{name}.{f.name}", f.field_type, child) for f, child in zip(typ.fields, array.flatten(), strict=True)]
            names = [quote(f.name) for f in typ.fields]
            valid = array.is_valid().to_pylist()
            return [
                "{" + ",".join(f"{n}:{p[i]}" for n, p in zip(names, parts)) + "}" if ok else NULL for i, ok in enumerate(valid)
            ]
        if isinstance(typ, ListType):
            places, array_valid = spans(array)
            values = self.column(name + ".element", typ.element_type, array.values.take(flat(places)))
            return group(places, array_valid, values, lambda part: "[" + ",".join(part) + "]")
        if isinstance(typ, MapType):
            places, array_valid = spans(array)
            keys = self.column(name + ".key", typ.key_type, array.keys.take(flat(places)))
            items = self.column(name + ".value", typ.value_type, array.items.take(flat(places)))
            pairs = list(zip(keys, items))
            return group(places, array_valid, pairs, entries)
        leaf = self.leaves.setdefault(name, Leaf(typ))
        values = plain(typ, array)
        leaf.see(values)
        return [spell(typ, v) for v in values]

    def content(self):
        return {
            "Count": self.rows, "Digest": f"{self.sum:016x}", "Columns": {n: l.facts() for n, l in self.leaves.items()},
            "Rows": sorted(self.texts) if self.rows <= 1000 else None,
        }

    def top(self):
        return {n: l for n, l in self.leaves.items() if n in self.names}


def entries(pairs):
    return "[" + ",".join(f"[{k},{v}]" for k, v in sorted(pairs, key=lambda p: p[0].encode())) + "]"


def spans(array):
    """Where each list's values lie in the child array; a null list has none, whatever its offsets say."""
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [(offsets[i], offsets[i + 1]) if ok else (0, 0) for i, ok in enumerate(valid)], valid


def flat(places):
    return pa.array([i for start, end in places for i in range(start, end)], pa.int64())


def group(places, valid, values, join):
    out, at = [], 0
    for (start, end), ok in zip(places, valid):
        out.append(join(values[at:at + end - start]) if ok else NULL)
        at += end - start
    return out


def of(schema, rows):
    """Facts of a pyarrow table. Its columns stand in the schema's order."""
    seen = Facts()
    seen.names, seen.rows = [f.name for f in schema.fields], len(rows)
    columns = []
    for field, column in zip(schema.fields, rows.columns, strict=True):
        chunks = column.combine_chunks()
        if isinstance(chunks, pa.ChunkedArray):
            chunks = pa.concat_arrays(chunks.chunks) if chunks.num_chunks else pa.array([], column.type)
        columns.append(seen.column(field.name, field.field_type, chunks))
    if rows.column_names != seen.names:
        raise ValueError(f"the scan returns columns {rows.column_names}, the schema has {seen.names}")
    names = [quote(n) for n in seen.names]
    for i in range(len(rows)):
        text = "{" + ",".join(f"{n}:{c[i]}" for n, c in zip(names, columns)) + "}"
        seen.sum = (seen.sum + int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")) % 2**64
        if seen.rows <= 1000:
            seen.texts.append(text)
    return seen
