"""Write and read Parquet files with Arrow and DuckDB, for the matrix of encodings.

Each line of standard input is a JSON request, each line of standard output the answer, an object with "error" where it failed. Requests:

    {"do": "write", "by": "pyarrow" | "duckdb", "from": [file, ...], "to": [file, ...], "encoding": ..., "version": 1 | 2, "codec": ...}
        reads each file and writes it anew
    {"do": "facts", "by": ..., "files": [file, ...], "kept": true, "found": true}
        what is in the files together; "kept": only in rows whose column gone is 0; "found": also what filters find
"""

import hashlib
import json
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq


def write(job):
    for source, to in zip(job["from"], job["to"], strict=True):
        table = pq.ParquetFile(source).read()
        if job["by"] == "duckdb":
            write_duckdb(job, source, table.schema, to)
        else:
            write_arrow(job, table, to)
    return {}


def write_arrow(job, table, to):
    kind, version = job["encoding"], job["version"]
    options = {
        "compression": {"uncompressed": "NONE", "lz4_raw": "LZ4"}.get(job["codec"], job["codec"].upper()), "data_page_version": f"{version}.0", "data_page_size": 2000,
        "write_batch_size": 100, "use_dictionary": kind in ("dictionary", "fallback"), "write_page_index": version == 2 or kind == "plain",
        "store_schema": False, "coerce_timestamps": None, "use_deprecated_int96_timestamps": False,
        "write_page_checksum": version == 2,
    }
    if kind == "fallback":
        options["dictionary_pagesize_limit"] = 300
    if kind in ("delta", "split"):
        options["column_encoding"] = dict(pick(table.schema, kind, version))
    with pq.ParquetWriter(to, table.schema, **options) as w:
        w.write_table(table, row_group_size=max(1, table.num_rows // 2 + 7))


def pick(schema, kind, version):
    """The encodings of leaves, by their paths in the file."""
    for path, typ in leaves(schema):
        if kind == "split":
            # DuckDB reads floating-point numbers only.
            if pa.types.is_floating(typ) or (version == 2 and not (pa.types.is_boolean(typ) or pa.types.is_string(typ) or pa.types.is_binary(typ))):
                yield path, "BYTE_STREAM_SPLIT"
        elif pa.types.is_boolean(typ):
            yield path, "RLE"
        elif pa.types.is_string(typ):
            yield path, "DELTA_BYTE_ARRAY"
        elif pa.types.is_binary(typ):
            yield path, "DELTA_LENGTH_BYTE_ARRAY"
        elif pa.types.is_fixed_size_binary(typ) or (pa.types.is_decimal(typ) and typ.precision > 18):
            yield path, "DELTA_BYTE_ARRAY"
        elif not (pa.types.is_floating(typ) or pa.types.is_decimal(typ)):
            yield path, "DELTA_BINARY_PACKED"


def leaves(schema):
    def walk(path, typ):
        if isinstance(typ, pa.BaseExtensionType):
            typ = typ.storage_type
        if pa.types.is_struct(typ):
            for f in typ:
                yield from walk(f"{path}.{f.name}", f.type)
        elif pa.types.is_map(typ):
            yield from walk(path + ".key_value.key", typ.key_type)
            yield from walk(path + ".key_value.value", typ.item_type)
        elif pa.types.is_list(typ):
            yield from walk(path + ".list.element", typ.value_type)
        else:
            yield path, typ
    for f in schema:
        yield from walk(f.name, f.type)


def write_duckdb(job, source, schema, to):
    ids = "{" + ", ".join(field_ids(f) for f in schema) + "}"
    options = [f"COMPRESSION {job['codec']}", f"PARQUET_VERSION V{job['version']}", "ROW_GROUP_SIZE 2048", f"FIELD_IDS {ids}"]
    if job["encoding"] == "plain":
        options += ["DICTIONARY_SIZE_LIMIT 0"]
    with connect() as db:
        db.execute(f"COPY (SELECT * FROM read_parquet('{source}') ORDER BY id) TO '{to}' (FORMAT parquet, {', '.join(options)})")


def field_ids(field):
    def own(f):
        return (f.metadata or {}).get(b"PARQUET:field_id", b"").decode()

    def inner(name, f):
        typ, parts = f.type, []
        if pa.types.is_struct(typ):
            parts = [inner(c.name, c) for c in typ]
        elif pa.types.is_map(typ):
            parts = [inner("key", typ.key_field), inner("value", typ.item_field)]
        elif pa.types.is_list(typ):
            parts = [inner("element", typ.value_field)]
        if not parts:
            return f'"{name}": {own(f)}'
        return f'"{name}": {{' + ", ".join([f"__duckdb_field_id: {own(f)}", *parts]) + "}"
    return inner(field.name, field)


def connect():
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'; SET threads = 1")
    return db


def content(job):
    if job["by"] == "duckdb":
        with connect() as db:
            return content_duckdb(db, job)
    # INT96 becomes timestamps of microseconds in the outputs.
    table = pa.concat_tables(pq.ParquetFile(f, coerce_int96_timestamp_unit="us").read() for f in job["files"])
    if job.get("kept"):
        table = table.filter(pc.equal(table["gone"], 0))
    result = describe(table)
    data = ds.dataset(job["files"], format="parquet")
    result["columns"] = {path: column_arrow(table, data, path, job.get("found")) for path, typ in flat(table.schema) if not isinstance(typ, pa.BaseExtensionType)}
    return result


def flat(schema):
    """Columns without repetition, by their steps."""
    def walk(path, typ):
        if pa.types.is_struct(typ):
            for f in typ:
                yield from walk((*path, f.name), f.type)
        elif not (pa.types.is_map(typ) or pa.types.is_list(typ)):
            yield path, typ
    for f in schema:
        for path, typ in walk((f.name,), f.type):
            yield ".".join(path), typ


def describe(table):
    ids = table["id"].to_pylist()
    table = table.sort_by("id")
    digests = {}
    for name in table.column_names:
        values = table[name].combine_chunks()
        if pa.types.is_temporal(values.type):
            values = values.cast(pa.int64() if values.type.bit_width == 64 else pa.int32())
        elif isinstance(values.type, pa.BaseExtensionType):
            values = values.cast(values.type.storage_type)
        digests[name] = digest(values.to_pylist())
    return {"rows": len(ids), "order": digest(ids), "descending": ids == sorted(ids, reverse=True), "digests": digests}


def digest(values):
    return hashlib.blake2b(repr(values).encode(), digest_size=8).hexdigest()


def column_arrow(table, data, path, found):
    steps = path.split(".")
    values = table[steps[0]].combine_chunks()
    for step in steps[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(step)])
    result = {"nulls": values.null_count, "present": len(values) - values.null_count}
    known = values.drop_null()
    if pa.types.is_floating(known.type):
        known = known.filter(pc.invert(pc.is_nan(known)))
    ref = pc.field(*steps)
    looked = [ref.is_null()]
    if len(known):
        for name in ("min", "max"):
            bound = pc.min_max(known)[name]
            result[name], result[name + "_hits"] = spell(bound), pc.sum(pc.equal(known, bound)).as_py()
            looked.append(ref == bound)
    if found:
        result["found"] = [data.count_rows(filter=f) for f in looked]
    return result


def spell(bound):
    if pa.types.is_temporal(bound.type):
        return str(bound.value)
    return repr(bound.as_py())


def content_duckdb(db, job):
    source = "read_parquet([" + ",".join(f"'{f}'" for f in job["files"]) + "], hive_partitioning = false)"
    if job.get("kept"):
        source = f"(SELECT * FROM {source} WHERE gone = 0)"
    table = db.execute(f"SELECT * FROM {source}").to_arrow_table()
    result = describe(table)
    paths = [path for path, _ in flat(table.schema)]
    asked = []
    for path in paths:
        c = quoted(path)
        real = f"NOT isnan({c})" if path in floating(table.schema) else "true"
        asked.append(f"count({c}), count(*) FILTER (WHERE {c} IS NULL), CAST(min({c}) FILTER (WHERE {real}) AS VARCHAR), CAST(max({c}) FILTER (WHERE {real}) AS VARCHAR), "
                     f"typeof(min({c}))")
    row = db.execute(f"SELECT {', '.join(asked)} FROM {source}").fetchone()
    result["columns"] = {}
    for i, path in enumerate(paths):
        present, nulls, low, high, kind = row[5 * i:5 * i + 5]
        facts = {"present": present, "nulls": nulls}
        conditions = [f"{quoted(path)} IS NULL"]
        if low is not None:
            # INT96 has no time zone here, and has one in the outputs.
            facts["min"], facts["max"] = (b.removesuffix("+00") for b in (low, high))
            conditions += [f"{quoted(path)} = CAST('" + b.replace("'", "''") + f"' AS {kind})" for b in (low, high)]
            counted = ", ".join(f"count(*) FILTER (WHERE hit{n})" for n in range(2))
            hits = ", ".join(f"{c} AS hit{n}" for n, c in enumerate(conditions[1:]))
            facts["min_hits"], facts["max_hits"] = db.execute(f"SELECT {counted} FROM (SELECT {hits} FROM {source})").fetchone()
        if job.get("found"):
            facts["found"] = [db.execute(f"SELECT count(*) FROM {source} WHERE {c}").fetchone()[0] for c in conditions]
        result["columns"][path] = facts
    return result


def floating(schema):
    return {path for path, typ in flat(schema) if pa.types.is_floating(typ)}


def quoted(path):
    return ".".join('"' + step + '"' for step in path.split("."))


def main():
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = write(job) if job["do"] == "write" else content(job)
        except Exception as e:  # The test says which cell it was.
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


main()
