"""Read Iceberg tables with DuckDB's Iceberg extension, which applies position deletes, deletion vectors and equality deletes by itself.

Standard input is one JSON object: {"catalog": {property: value}, "tables": [name, ...]}. For each table one JSON line is printed, in order:
{"table": ..., "metadata_location": ..., "facts": as facts.py has them, or "error": text}.
"""

import json
import sys

import duckdb
import duckdb_ext
import facts

from pyiceberg.catalog import load_catalog


def connect(s3):
    db = duckdb_ext.init(duckdb.connect())
    db.execute("SET threads = 1; LOAD avro; LOAD httpfs; LOAD iceberg; SET TimeZone = 'UTC'")
    db.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{s3['s3.access-key-id']}', SECRET '{s3['s3.secret-access-key']}', REGION '{s3['s3.region']}',"
        f" ENDPOINT '{s3['s3.endpoint'].removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
    )
    return db


def main():
    request = json.load(sys.stdin)
    catalog, db = load_catalog("default", **request["catalog"]), connect(request["catalog"])
    for name in request["tables"]:
        answer = {"table": name}
        try:
            table = catalog.load_table(name)
            answer["metadata_location"] = table.metadata_location
            rows = db.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").fetch_arrow_table()
            answer["facts"] = facts.of(table.schema(), rows).content()
        except Exception as e:
            answer["error"] = f"{type(e).__name__}: {e}"
        print(json.dumps(answer), flush=True)


main()
