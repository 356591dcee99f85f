"""DuckDB as a peer of the engine's benchmark, at the best of the settings tried: rows in any order unless sorted, small row groups, two threads.

usage: duckdb_peer.py merge FOLDER OUT CODEC [ORDER]     merges FOLDER/data, with FOLDER/deletes applied, into the file OUT; ORDER is a list of columns
       duckdb_peer.py facts GLOB [FOLDER]                prints rows, a hash that no order changes, and nulls and bounds by column as JSON
"""
import glob
import json
import sys

import duckdb


def rows(con, files, folder):
    deletes = glob.glob(folder + "/deletes/*.parquet") if folder else []
    if not deletes:
        return f"read_parquet({files!r})"
    return (f"(select * exclude (filename, file_row_number) from read_parquet({files!r}, filename = true, file_row_number = true) t"
            f" anti join read_parquet({deletes!r}) d on 'file://' || t.filename = d.file_path and t.file_row_number = d.pos)")


con = duckdb.connect()
con.execute("set timezone = 'UTC'; set threads = 2")
if sys.argv[1] == "merge":
    folder, out, codec = sys.argv[2:5]
    order = sys.argv[5] if len(sys.argv) > 5 else ""
    con.execute(f"set temp_directory = '{out}.spill'")
    con.execute("set memory_limit = '1000MB'" if order else "set preserve_insertion_order = false")
    level = ", compression_level 3" if codec == "zstd" else ""
    sort = f" order by {order}" if order else ""
    con.execute(f"copy (select * from {rows(con, sorted(glob.glob(folder + '/data/part-*.parquet')), folder)}{sort})"
                f" to '{out}' (format parquet, compression '{codec}', row_group_size 122880{level})")
else:
    source = rows(con, sorted(glob.glob(sys.argv[2])), sys.argv[3] if len(sys.argv) > 3 else "")
    columns = con.execute(f"describe select * from {source}").fetchall()
    names = [c[0] for c in columns]
    wanted = ["count(*)"] + [f"sum(hash({n})::hugeint)::varchar" for n in names] + [f"count({n})" for n in names]
    wanted += [f"{f}({n})::varchar" for n, t, *_ in columns if "(" not in t.replace("DECIMAL(", "") for f in ("min", "max")]
    print(json.dumps(con.execute(f"select {', '.join(wanted)} from {source}").fetchone()))
