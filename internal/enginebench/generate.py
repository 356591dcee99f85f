"""Writes the Parquet inputs of one workload for the engine's benchmark; the same bytes for one set of library versions.

usage: generate.py KIND FOLDER FILES        KIND: events-zstd events-snappy events-dictionary lineitem lineitem-dictionary tiny blobs
Fields are numbered depth first, as a new table numbers them. The folder gets data/, deletes-random/ and deletes-clustered/ (of events-zstd, a
hundredth of the rows) and rows.json, the rows of each file. Files that are there already are kept.
"""
import json
import os
import random
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

POSITIONS = pa.schema([
    pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
    pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
])


def numbered(schema):
    """Gives every field an ID: a field before those within it, those within it before the next."""
    count = 0

    def field(f):
        nonlocal count
        count += 1
        number, t = str(count), f.type
        if pa.types.is_struct(t):
            t = pa.struct([field(t.field(i)) for i in range(t.num_fields)])
        elif pa.types.is_map(t):
            t = pa.map_(field(t.key_field), field(t.item_field))
        elif pa.types.is_list(t):
            t = pa.list_(field(t.value_field))
        return pa.field(f.name, t, f.nullable, {"PARQUET:field_id": number})

    return pa.schema([field(f) for f in schema])


EVENTS = """
select i id, make_timestamptz(1767225600000000 + i * 40000 + (h1 % 39000)::bigint) ts,
  case when h1 % 50 = 0 then null else 'u-' || lpad((h2 % 900000)::varchar, 7, '0') end user_id,
  ['US','DE','FR','IN','BR','GB','CA','JP'][1 + (h3 % 8)::int] country,
  case when h4 % 10 = 0 then null else ((h4 % 100000000)::bigint / 10000.0)::decimal(18, 4) end amount,
  [200, 201, 204, 301, 404, 500][1 + (h3 % 6)::int]::int status,
  case when h1 % 20 = 0 then null else h2 % 3 <> 0 end ok, (h4 % 1000003) / 1000003.0::double score,
  case when h2 % 20 = 0 then null else '{"sid":"' || md5('s' || (i // 6)) || '","page":"/c/' || (h2 % 400) || '/item/' || (h3 % 250000)
    || '","ms":' || (h4 % 30000) || ',"ua":"Agent/' || (60 + h1 % 70) || '.0 (X11; r' || (h2 % 99) || ')","sum":' || (h4 % 90000) || '}' end payload,
  case when h1 % 30 = 0 then null else [('t' || ((h2 + k * 7919) % 300)) for k in range((h3 % 5)::bigint)] end tags,
  case when h2 % 25 = 0 then null else map_from_entries([{k: ['a', 'b', 'plan', 'src'][k::int + 1], v: 'v' || ((h3 + k * 31) % 50)} for k in range((h4 % 4)::bigint)]) end attrs,
  case when h3 % 40 = 0 then null else {os: ['ios', 'android', 'mac', 'win'][1 + (h1 % 4)::int], version: (h2 % 40)::int,
    geo: case when h4 % 7 = 0 then null else {lat: (h4 % 180000) / 1000.0::double - 90, lon: (h1 % 360000) / 1000.0::double - 180} end} end device
from (select i, hash(i + 101) h1, hash(i * 3 + 7) h2, hash(i * 5 + 11) h3, hash(i * 7 + 13) h4 from range({a}, {b}) t(i)) order by i
"""
EVENTS_CODED = ["country", "status", "tags.list.element", "attrs.key_value.key", "attrs.key_value.value", "device.os", "device.version"]

LINEITEM = """
select i // 4 orderkey, (h1 % 800000)::bigint partkey, (h2 % 40000)::bigint suppkey, (i % 4)::int linenumber, (1 + h3 % 50)::decimal(15, 2) quantity,
  ((90000 + h1 % 9500000)::bigint / 100.0)::decimal(15, 2) extendedprice, ((h4 % 11)::bigint / 100.0)::decimal(15, 2) discount,
  ((h3 % 9)::bigint / 100.0)::decimal(15, 2) tax, ['A', 'N', 'R'][1 + (h1 % 3)::int] returnflag, ['F', 'O'][1 + (h2 % 2)::int] linestatus,
  date '1992-01-01' + (h2 % 2500)::int shipdate, date '1992-01-01' + (h3 % 2500)::int commitdate, date '1992-01-01' + (h4 % 2500)::int receiptdate,
  ['NONE', 'COLLECT COD', 'DELIVER IN PERSON', 'TAKE BACK RETURN'][1 + (h4 % 4)::int] shipinstruct,
  ['AIR', 'FOB', 'MAIL', 'RAIL', 'SHIP', 'TRUCK'][1 + (h1 % 6)::int] shipmode,
  ['carefully ', 'quickly ', 'slyly ', 'blithely ', 'furiously '][1 + (h1 % 5)::int] || ['final ', 'ironic ', 'pending ', 'bold ', 'regular '][1 + (h2 % 5)::int]
    || ['deposits ', 'accounts ', 'packages ', 'theodolites '][1 + (h3 % 4)::int] || (h4 % 1000) as "comment"
from (select i, hash(i + 1) h1, hash(i * 3 + 2) h2, hash(i * 5 + 3) h3, hash(i * 7 + 4) h4 from range({a}, {b}) t(i)) order by i
"""
LINEITEM_PLAIN = {"orderkey", "partkey", "suppkey", "extendedprice", "comment"}


BLOBS = "select i id, null::blob payload from range({a}, {b}) t(i)"


def main(kind, folder, files):
    for name in ("data", "deletes-random", "deletes-clustered"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    sql, rows = {"lineitem": (LINEITEM, 150_000), "tiny": (EVENTS, 1_000), "blobs": (BLOBS, 1_000)}.get(kind.split("-")[0], (EVENTS, 42_000))
    style = {"snappy": {"compression": "snappy"}}.get(kind.split("-")[-1], {"compression": "zstd", "compression_level": 3})
    all_coded = kind.endswith("-dictionary")
    home = folder + "/home.txt"  # deletes hold the paths of their data files: a folder that was moved would lose no row
    moved = not os.path.exists(home) or open(home).read() != folder
    for n in range(files):
        path = f"{folder}/data/part-{n:05d}.parquet"
        made = os.path.exists(path)
        if kind == "events-zstd" and (moved or not made):
            gone = rows // 100
            delete(con, f"select i from range({rows}) t(i) order by hash(i + {n * rows}) limit {gone}", path, f"{folder}/deletes-random/part-{n:05d}.parquet")
            delete(con, f"select i + (hash({n}) % {rows - gone})::bigint i from range({gone}) t(i)", path, f"{folder}/deletes-clustered/part-{n:05d}.parquet")
        if made:
            continue
        t = con.sql(sql.replace("{a}", str(n * rows)).replace("{b}", str((n + 1) * rows))).to_arrow_table()
        if kind == "blobs":
            noise = random.Random(n)
            t = t.set_column(1, "payload", pa.array([noise.randbytes(4096) for _ in range(rows)], pa.binary()))
        names = numbered(t.schema)
        coded = [f.name for f in names if f.name not in LINEITEM_PLAIN] if sql is LINEITEM else EVENTS_CODED if sql is EVENTS else False
        pq.write_table(t.cast(names), path + ".part", row_group_size=rows, use_dictionary=all_coded or coded, write_page_index=not all_coded,
                       store_schema=False, max_rows_per_page=20_000, store_decimal_as_integer=not all_coded, **style)
        os.rename(path + ".part", path)
    with open(home, "w") as out:
        out.write(folder)
    with open(folder + "/rows.json", "w") as out:
        json.dump([rows] * len(os.listdir(folder + "/data")), out)


def delete(con, positions, path, to):
    """Writes a file of position deletes."""
    pos = con.sql(f"select i from ({positions}) order by i").to_arrow_table().column(0).combine_chunks()
    pq.write_table(pa.table([pa.array(["file://" + path] * len(pos), pa.string()), pos], schema=POSITIONS), to, compression="zstd", store_schema=False)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
