"""Spark, PyIceberg and DuckDB in one process, for histories of operations: one JSON command a line on standard input, one JSON answer a line.

The first line is {"spark_jars": [path], "sql": {property: value}, "rest": {property: value}, "s3": {property: value}}: the same catalog "lake" by SQL and
by REST. An answer is {"error": text} or what the command gives. Commands, by "do":

    start     starts Spark
    sql       runs a statement in Spark ("sql"), where ${route} in a table's name is its catalog; gives the first column's values
    read      what an engine ("engine": spark, pyiceberg, duckdb) finds in a table's branch or tag ("ref"), in the form of facts.py
    lineage   row IDs and sequence numbers by "id", as Spark finds them
    append, overwrite, delete, upsert    PyIceberg's ("route", "table", "rows" by column name, "where", "keys")
"""

import datetime
import decimal
import json
import os
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import duckdb
import facts
import pyarrow as pa

from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
from pyiceberg.types import DateType, DecimalType, TimestampType, TimestamptzType

warnings.filterwarnings("ignore")

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Engines:
    def __init__(self, setup):
        self.setup, self.session, self.catalogs, self.duck = setup, None, {}, None

    def catalog(self, route):
        if route not in self.catalogs:
            self.catalogs[route] = load_catalog("lake", **self.setup[route])
        return self.catalogs[route]

    def spark(self):
        if self.session is None:
            from pyspark.sql import SparkSession

            builder = (
                SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.memory", "700m")
                .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1").config("spark.sql.shuffle.partitions", "1")
                .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.extraClassPath", ":".join(self.setup["spark_jars"]))
                .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
                .config("spark.sql.catalogImplementation", "in-memory").config("spark.sql.session.timeZone", "UTC")
                .config("spark.sql.adaptive.enabled", "false").config("spark.sql.codegen.wholeStage", "false")
                .config("spark.sql.warehouse.dir", self.setup["spark_home"]).config("spark.local.dir", self.setup["spark_home"])
            )
            # the JDBC catalog is called lake, as in the SQLite file; the REST one may have any name
            catalogs = {"lake": {"type": "jdbc", "uri": "jdbc:sqlite:" + self.setup["sql"]["uri"].removeprefix("sqlite:///")}}
            catalogs["rest"] = {"type": "rest", "uri": self.setup["rest"]["uri"]}
            for name, properties in catalogs.items():
                key = "spark.sql.catalog." + name
                properties |= {"cache-enabled": "false", "warehouse": self.setup["sql"]["warehouse"], "io-impl": "org.apache.iceberg.io.ResolvingFileIO"}
                builder = builder.config(key, "org.apache.iceberg.spark.SparkCatalog")
                for k, v in (properties | self.setup["s3"]).items():
                    builder = builder.config(key + "." + k, v)
            self.session = builder.getOrCreate()
            self.session.sparkContext.setLogLevel("OFF")
        return self.session

    def duckdb(self):
        if self.duck is None:
            import duckdb_ext

            self.duck = duckdb_ext.init(duckdb.connect())
            self.duck.execute("SET threads = 1; LOAD avro; LOAD httpfs; LOAD iceberg")
            s3 = self.setup["s3"]
            if s3:
                self.duck.execute(
                    f"CREATE SECRET (TYPE s3, KEY_ID '{s3['s3.access-key-id']}', SECRET '{s3['s3.secret-access-key']}', REGION 'us-east-1',"
                    f" ENDPOINT '{s3['s3.endpoint'].removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
                )
        return self.duck

    def start(self, command):
        return {"version": self.spark().version}

    def sql(self, command):
        rows = self.spark().sql(command["sql"]).collect()
        return {"values": [str(r[0]) for r in rows if len(r)]}

    def read(self, command):
        return {"facts": getattr(self, "read_" + command["engine"])(command)}

    def read_spark(self, command):
        name, ref = command["table"], command.get("ref", "main")
        source = {"sql": "lake", "rest": "rest"}[command["route"]] + "." + name
        if command.get("tag"):
            frame = self.spark().sql(f"SELECT * FROM {source} VERSION AS OF '{ref}'")
        else:
            frame = self.spark().sql(f"SELECT * FROM {source}" + ("" if ref == "main" else f".branch_{ref}"))
        rows = frame.toArrow()
        return facts.of(_pyarrow_to_schema_without_ids(rows.schema), rows).content()

    def read_pyiceberg(self, command):
        table = self.catalog(command["route"]).load_table(command["table"])
        ref = table.metadata.refs.get(command.get("ref", "main"))
        scan = table.scan() if command.get("ref", "main") == "main" else table.scan(snapshot_id=ref.snapshot_id)
        rows = scan.to_arrow()
        return facts.of(table.schema(), rows).content()

    def read_duckdb(self, command):
        table = self.catalog(command["route"]).load_table(command["table"])
        location = table.metadata_location.removeprefix("file://").removeprefix("file:")
        try:
            rows = self.duckdb().execute(f"SELECT * FROM iceberg_scan('{location}')").fetch_arrow_table()
        except duckdb.Error:
            self.duck = None  # after a fatal error a connection answers nothing more
            raise
        return facts.of(table.schema(), rows).content()

    def lineage(self, command):
        source = {"sql": "lake", "rest": "rest"}[command["route"]] + "." + command["table"]
        rows = self.spark().sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {source}").collect()
        return {"lineage": {str(r[0]): [r[1], r[2]] for r in rows}}

    def rows(self, table, command):
        """The command's rows as Arrow. Their columns carry the table's own types."""
        schema, columns = table.schema(), {}
        for field in schema.fields:
            values = [value(field.field_type, row.get(field.name)) for row in command["rows"]]
            columns[field.name] = pa.array(values, schema_to_pyarrow(field.field_type, include_field_ids=False))
        arrow = schema_to_pyarrow(schema, include_field_ids=False)
        return pa.table(columns, schema=pa.schema([pa.field(f.name, f.type, f.nullable) for f in arrow]))

    def append(self, command):
        table = self.catalog(command["route"]).load_table(command["table"])
        table.append(self.rows(table, command), branch=command.get("ref", "main"))
        return {}

    def overwrite(self, command):
        table = self.catalog(command["route"]).load_table(command["table"])
        table.overwrite(self.rows(table, command), overwrite_filter=command["where"], branch=command.get("ref", "main"))
        return {}

    def delete(self, command):
        self.catalog(command["route"]).load_table(command["table"]).delete(command["where"], branch=command.get("ref", "main"))
        return {}

    def upsert(self, command):
        table = self.catalog(command["route"]).load_table(command["table"])
        result = table.upsert(self.rows(table, command), join_cols=command["keys"], branch=command.get("ref", "main"))
        return {"updated": result.rows_updated, "inserted": result.rows_inserted}


def value(typ, plain):
    """A value from its plain form: days, microseconds, decimals as text."""
    if plain is None:
        return None
    if isinstance(typ, DateType):
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=plain)
    if isinstance(typ, DecimalType):
        return decimal.Decimal(plain)
    if isinstance(typ, TimestamptzType):
        return EPOCH + datetime.timedelta(microseconds=plain)
    if isinstance(typ, TimestampType):
        return EPOCH.replace(tzinfo=None) + datetime.timedelta(microseconds=plain)
    return plain


def main():
    out = os.fdopen(os.dup(1), "w")  # nothing else may write between the answers
    os.dup2(2, 1)
    engines = Engines(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(engines, command["do"])(command)
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"[:2000]}
        print(json.dumps(answer), file=out, flush=True)


main()
