"""Read Iceberg tables with engines that are not Firn, and say what is in them.

Standard input is one JSON object: {"catalog": {property: value}, "jobs": [job, ...]}. For each job one JSON line is printed, in order:
{"table": ..., "error": text or absent, ...}. Jobs, by "do":

    read     what PyIceberg's scan returns (facts), what DuckDB's Parquet reader finds in the live data files (duckdb), what Arrow's finds there
             in tables with nested columns (files), and how many rows PyIceberg finds when it looks for each column's smallest or largest
             value (found): bounds in manifests must not hide rows. "raw": true leaves out all but the first.
    files    paths and row counts of the live data files, and what PyIceberg says when it reads them (read_error)
    snapshots  row count and digest of every snapshot that the metadata lists
    append   copies one row of the table with PyIceberg ("where": the row's condition, "set": columns to change)
    delete   deletes rows with PyIceberg by copy-on-write ("where": condition)
"""

import json
import os
import sys
import tempfile
import warnings

import facts
import parquet
import pyarrow

from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo, Or

warnings.filterwarnings("ignore")


def read(table, job):
    schema = table.schema()
    result = {"metadata_location": table.metadata_location, "format_version": table.metadata.format_version}
    rows = table.scan().to_arrow()
    seen = facts.of(schema, rows)
    result["facts"] = seen.content()
    if job.get("raw"):
        return result
    tasks = list(table.scan().plan_files())
    result["data_files"] = len(tasks)
    result["delete_files"] = len({d.file_path for t in tasks for d in t.delete_files})
    result["found"] = {name: find(table, name, leaf) for name, leaf in seen.top().items()}
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, task in enumerate(tasks):
            files.append(os.path.join(folder, f"{i}.parquet"))
            with table.io.new_input(task.file.file_path).open() as source, open(files[-1], "wb") as copy:
                copy.write(source.read())
        result["duckdb"] = parquet.content(files, schema)
        if files and any(not f.field_type.is_primitive for f in schema.fields):
            result["files"] = facts.of(schema, parquet.rows(files, schema)).content()
    return result


def files(table, job):
    live = {task.file.file_path: task.file.record_count for task in table.scan().plan_files()}
    try:
        table.scan().to_arrow()
        error = ""
    except Exception as e:
        error = f"{type(e).__name__}: {e}"
    return {"metadata_location": table.metadata_location, "live": live, "read_error": error}


def snapshots(table, job):
    digests = {}
    for snapshot in table.metadata.snapshots:
        content = facts.of(table.schema(), table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()).content()
        digests[str(snapshot.snapshot_id)] = {"count": content["Count"], "digest": content["Digest"]}
    return {"snapshots": digests}


def find(table, name, leaf):
    """Count the rows that hold the smallest or the largest value, as a scan with that condition finds them, and as all rows have them."""
    if leaf.min is None:
        return None
    low, high = leaf.literal(leaf.min), leaf.literal(leaf.max)
    want = leaf.hits(leaf.min) + (leaf.hits(leaf.max) if leaf.min != leaf.max else 0)
    try:
        got = len(table.scan(row_filter=Or(EqualTo(name, low), EqualTo(name, high)), selected_fields=(name,)).to_arrow())
    except Exception as e:  # a filter that PyIceberg cannot evaluate is reported, not judged
        return {"error": f"{type(e).__name__}: {e}"}
    return {"want": want, "got": got}


def append(table, job):
    rows = table.scan(row_filter=job["where"]).to_arrow()
    if len(rows) == 0:
        raise ValueError(f"no row where {job['where']}")
    rows = rows.slice(0, 1)
    for name, value in job.get("set", {}).items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pyarrow.array([value], rows.schema.field(at).type))
    table.append(rows)
    return {"rows": 1}


def delete(table, job):
    before = table.scan().count()
    table.delete(job["where"])
    return {"rows": before - table.scan().count()}


JOBS = {"read": read, "files": files, "snapshots": snapshots, "append": append, "delete": delete}


def main():
    request = json.load(sys.stdin)
    catalog = load_catalog("default", **request["catalog"])
    for job in request["jobs"]:
        answer = {"table": job["table"]}
        try:
            answer |= JOBS[job["do"]](catalog.load_table(job["table"]), job)
        except Exception as e:
            answer["error"] = f"{type(e).__name__}: {e}"
        print(json.dumps(answer), flush=True)


main()
