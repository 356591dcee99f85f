"""Append to Iceberg tables with PyIceberg, one commit for each line of standard input, until it ends.

The first line is {"catalog": {property: value}}. Then each line is {"do": "append", "table": name, "rows": [[id, g, v, pad], ...]}, answered with
{"again": commits that another writer made it repeat}, or {"do": "read", "table": name, "snapshot_id": id}, answered with {"rows": [[id, g, v, pad], ...]}.
{"error": text} tells what went wrong.
"""

import json
import sys
import uuid
import warnings

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from requests.exceptions import ConnectionError

warnings.filterwarnings("ignore")

TRIES = 50


def landed(catalog, job, marks):
    """Say whether a commit whose answer was lost is in the table."""
    return any(s.summary and s.summary.additional_properties.get("stress.append") in marks for s in catalog.load_table(job["table"]).metadata.snapshots)


def append(catalog, job):
    lost = set()
    for again in range(TRIES):
        if lost and landed(catalog, job, lost):
            return {"again": again}
        table = catalog.load_table(job["table"])
        mark = str(uuid.uuid4())
        names = [f.name for f in table.schema().fields]
        columns = {name: [row[i] for row in job["rows"]] for i, name in enumerate(names)}
        rows = pa.Table.from_pydict(columns, schema=table.schema().as_arrow())
        try:
            table.append(rows, snapshot_properties={"stress.append": mark})
            return {"again": again}
        except CommitFailedException:
            continue
        except ConnectionError:  # the server closed an idle connection as it was used again
            lost.add(mark)
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
