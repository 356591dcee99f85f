"""Append to Iceberg tables with PyIceberg, one commit for each line of standard input, until it ends.

The first line is {"catalog": {property: value}}. Then each line is {"do": "append", "table": name, "rows": [[id, g, v, pad], ...]}, answered with
{"again": commits that another writer made it repeat}, or {"do": "read", "table": name, "snapshot_id": id}, answered with {"rows": [[id, g, v, pad], ...]}.
{"error": text} tells what went wrong.
"""

import json
import sys
import warnings

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

warnings.filterwarnings("ignore")

TRIES = 50


def append(catalog, job):
    for again in range(TRIES):
        table = catalog.load_table(job["table"])
        names = [f.name for f in table.schema().fields]
        columns = {name: [row[i] for row in job["rows"]] for i, name in enumerate(names)}
        rows = pa.Table.from_pydict(columns, schema=table.schema().as_arrow())
        try:
            table.append(rows)
            return {"again": again}
        except CommitFailedException:
            continue
    return {"error": f"{TRIES} commits in a row met another writer"}


def read(catalog, job):
    rows = catalog.load_table(job["table"]).scan(snapshot_id=job["snapshot_id"]).to_arrow()
    return {"rows": [list(row) for row in zip(*(rows.column(name).to_pylist() for name in rows.column_names))]}


def main():
    catalog = load_catalog("default", **json.loads(sys.stdin.readline())["catalog"])
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = append(catalog, job) if job["do"] == "append" else read(catalog, job)
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


main()
