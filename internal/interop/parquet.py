"""What DuckDB's Parquet reader finds in data files: facts by top-level primitive column, with the row groups' statistics in use."""

import duckdb
import pyarrow
import pyarrow.parquet
from pyiceberg.types import (
    BinaryType, DateType, DoubleType, FixedType, FloatType, ListType, MapType, StringType, StructType, TimestampNanoType, TimestampType,
    TimestamptzNanoType, TimestamptzType, TimeType, UUIDType,
)

from facts import spell

# How a value is asked for in Iceberg's own form.
NUMBERS = {
    DateType: "({} - DATE '1970-01-01')", TimeType: "epoch_us({})", TimestampType: "epoch_us({})", TimestamptzType: "epoch_us({})",
    TimestampNanoType: "epoch_ns({})", TimestamptzNanoType: "epoch_ns({})",
}


def content(files, schema):
    """{"Count": rows, "Columns": {name: facts}}; hits are rows that equal the smallest and the largest value, found by a filter and by counting."""
    result = {"Count": 0, "Columns": {}}
    if not files:
        return result
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'; SET threads = 1")
        source = "read_parquet([" + ",".join(f"'{f}'" for f in files) + "], hive_partitioning = false)"
        result["Count"] = db.execute(f"SELECT count(*) FROM {source}").fetchone()[0]
        for field in schema.fields:
            if not isinstance(field.field_type, (StructType, ListType, MapType)):
                result["Columns"][field.name] = column(db, source, field)
    return result


def rows(files, schema):
    """All rows of the files as Arrow reads them, columns by name."""
    return pyarrow.concat_tables(pyarrow.parquet.ParquetFile(f).read().select([c.name for c in schema.fields]) for f in files)


def column(db, source, field):
    typ, name = field.field_type, '"' + field.name.replace('"', '""') + '"'
    floating = isinstance(typ, (FloatType, DoubleType))
    real = f"NOT isnan({name})" if floating else "true"
    form = NUMBERS.get(type(typ), "{}").format("v")
    values, present, nulls, nan, low, high, kind = db.execute(f"""
        SELECT n, present, nulls, nan, (SELECT {form} FROM (SELECT low AS v)), (SELECT {form} FROM (SELECT high AS v)), typeof(low) FROM (
            SELECT count(*) AS n, count({name}) AS present, count(*) FILTER (WHERE {name} IS NULL) AS nulls,
                {f"count(*) FILTER (WHERE isnan({name}))" if floating else "0"} AS nan,
                min({name}) FILTER (WHERE {real}) AS low, max({name}) FILTER (WHERE {real}) AS high
            FROM {source})""").fetchone()
    filtered = db.execute(f"SELECT count(*) FROM {source} WHERE {name} IS NULL").fetchone()[0]
    facts = {
        "Values": values, "Nulls": nulls, "NaN": nan, "Min": text(typ, low), "Max": text(typ, high), "Present": present, "FilteredNulls": filtered,
    }
    if low is not None:
        facts["Hits"] = [hits(db, source, name, f, kind, real) for f in ("min", "max")]
    return facts


def text(typ, value):
    if value is None:
        return ""
    if isinstance(typ, (FixedType, BinaryType)):
        value = bytes(value)
    return spell(typ, value)


def hits(db, source, name, function, kind, real):
    """Rows that equal a bound: found by a filter with a constant, which reads statistics and Bloom filters, and by counting all rows."""
    bound = db.execute(f"SELECT CAST({function}({name}) FILTER (WHERE {real}) AS VARCHAR) FROM {source}").fetchone()[0]
    constant = "CAST('" + bound.replace("'", "''") + f"' AS {kind})"
    found = db.execute(f"SELECT count(*) FROM {source} WHERE {name} = {constant}").fetchone()[0]
    counted = db.execute(f"SELECT count(*) FILTER (WHERE same) FROM (SELECT {name} = {constant} AS same FROM {source})").fetchone()[0]
    return [found, counted]
