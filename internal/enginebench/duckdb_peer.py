"""DuckDB as a peer of the engine's benchmark, at the best of the settings tried: rows in any order unless sorted, small row groups, two threads.

usage: duckdb_peer.py merge FOLDER FILES DELETES OUT CODEC LEVEL [ORDER]
                                                  merges the first files of FOLDER/data, without the rows in FOLDER/DELETES ("" for none); ORDER is a list of columns
       duckdb_peer.py facts FOLDER FILES DELETES  prints rows, a hash that no order changes, and nulls and bounds by column as JSON
       duckdb_peer.py facts GLOB                  the same of any files
       duckdb_peer.py scan GLOB                   reads all values and prints the processor seconds that it took
"""
import glob
import json
import resource
import sys

import duckdb


def rows(folder, files, deletes):
    names = sorted(glob.glob(folder + "/data/part-*.parquet"))[:int(files)]
    if not deletes:
        return f"read_parquet({names!r})"
    gone = sorted(glob.glob(f"{folder}/{deletes}/part-*.parquet"))[:int(files)]
    return (f"(select * exclude (filename, file_row_number) from read_parquet({names!r}, filename = true, file_row_number = true) t"
            f" anti join read_parquet({gone!r}) d on 'file://' || t.filename = d.file_path and t.file_row_number = d.pos)")


def merge(con, folder, files, deletes, out, codec, level, order=""):
    con.execute(f"set temp_directory = '{out}.spill'")
    con.execute("set memory_limit = '1000MB'" if order else "set preserve_insertion_order = false")
    level = f", compression_level {level}" if codec == "zstd" else ""
    sort = f" order by {order}" if order else ""
    con.execute(f"copy (select * from {rows(folder, files, deletes)}{sort}) to '{out}' (format parquet, compression '{codec}', row_group_size 122880{level})")


def found(con, source):
    columns = con.execute(f"describe select * from {source}").fetchall()
    names = [c[0] for c in columns]
    wanted = ["count(*)"] + [f"sum(hash({n})::hugeint)::varchar" for n in names] + [f"count({n})" for n in names]
    wanted += [f"{f}({n})::varchar" for n, t, *_ in columns if "(" not in t.replace("DECIMAL(", "") for f in ("min", "max")]
    return con.execute(f"select {', '.join(wanted)} from {source}").fetchone()


def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(kind, *args):
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'; set threads = 2")
    if kind == "merge":
        merge(con, *args)
        return
    source = rows(*args) if len(args) == 3 else f"read_parquet({sorted(glob.glob(args[0]))!r})"
    if kind == "facts":
        print(json.dumps(found(con, source)))
        return
    con.execute(f"select count(*) from {source}").fetchall()
    names = [c[0] for c in con.execute(f"describe select * from {source}").fetchall()]
    start = seconds()
    con.execute(f"select {', '.join(f'sum(hash({n})::hugeint)' for n in names)} from {source}").fetchall()
    print(seconds() - start)


main(*sys.argv[1:])
