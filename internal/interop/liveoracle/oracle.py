"""The live oracle: tables that Spark wrote are maintained twice, by Spark's procedures on one copy and by Firn on another, with the same text; what
differs beyond the rules of compare.py is printed, one JSON object a line, and at the end the tally.

    oracle.py SETUP SEED...     SETUP is a JSON object: spark_jars, server (address of the Java server), database, warehouse, firn (the program), calls
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
import traceback

import calls
import compare
import tables


class Oracle:
    def __init__(self, setup):
        self.setup, self.home = setup, os.path.dirname(setup["database"])
        self.spark = self.start()

    def start(self):
        from pyspark.sql import SparkSession

        builder = (
            SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.memory", "900m")
            .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1").config("spark.sql.shuffle.partitions", "1")
            .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.extraClassPath", ":".join(self.setup["spark_jars"]))
            .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config("spark.sql.catalogImplementation", "in-memory").config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.adaptive.enabled", "false").config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.warehouse.dir", self.home).config("spark.local.dir", self.home)
        )
        properties = {
            "": "org.apache.iceberg.spark.SparkCatalog", ".type": "jdbc", ".uri": "jdbc:sqlite:" + self.setup["database"], ".cache-enabled": "false",
            ".warehouse": "file://" + self.setup["warehouse"],
        }
        for k, v in properties.items():
            builder = builder.config("spark.sql.catalog.lake" + k, v)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        return session

    def sql(self, statement):
        return self.spark.sql(statement).collect()

    def pointer(self, table, to=None):
        namespace, name = table.split(".")
        with sqlite3.connect(self.setup["database"], timeout=30) as db:
            if to:
                db.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?", (to, namespace, name))
            return db.execute("SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?", (namespace, name)).fetchone()[0]

    def firn(self, statement):
        args = [self.setup["firn"], "sql", "--json", "--catalog", "lake", "-P", "type=sql", "-P", "uri=sqlite:///" + self.setup["database"], "-P", "warehouse=file://" + self.setup["warehouse"]]
        done = subprocess.run(args + [statement], capture_output=True, text=True, cwd=self.home, env={"HOME": self.home, "FIRN_HOME": self.home + "/firn", "PATH": os.environ["PATH"]}, timeout=300)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = {}
        return done.returncode, answer, (done.stdout + done.stderr).strip()

    def state(self, name, branch="main"):
        """What stands in the table, as Spark's metadata tables and the folder say."""
        full = "lake." + name
        refs = {r.name: (r.type, r.snapshot_id) for r in self.sql(f"SELECT name, type, snapshot_id FROM {full}.refs")}
        at = f" VERSION AS OF {refs[branch][1]}" if branch in refs else ""
        entries = []
        for r in self.sql(f"SELECT status, snapshot_id, sequence_number, data_file FROM {full}.entries{at} WHERE status < 2") if refs else []:
            f = r.data_file.asDict(recursive=True)
            f = {k: f.get(k) for k in ("content", "file_path", "spec_id", "record_count", "file_size_in_bytes", "sort_order_id", "equality_ids", "referenced_data_file", "content_offset", "partition")}
            f["partition"] = json.dumps(f["partition"], default=str, sort_keys=True)
            entries.append(f | {"sequence_number": r.sequence_number, "snapshot_id": r.snapshot_id})
        snapshots = [
            {"snapshot_id": r.snapshot_id, "parent_id": r.parent_id, "operation": r.operation, "summary": dict(r.summary or {}), "ms": r.ms}
            for r in self.sql(f"SELECT snapshot_id, parent_id, operation, summary, unix_millis(committed_at) AS ms FROM {full}.snapshots")
        ]
        manifests = [r.asDict() for r in self.sql(f"SELECT content, path, length, partition_spec_id FROM {full}.manifests{at}")] if refs else []
        folder = os.path.join(self.setup["warehouse"], *name.split("."))
        files = sorted(os.path.join(d, f)[len(folder) + 1:] for d, _, names in os.walk(folder) for f in names if not f.endswith(".crc"))
        return {"refs": refs, "entries": entries, "snapshots": snapshots, "manifests": manifests, "files": files, "rows": self.rows(full, refs)} | self.metadata(name)

    def rows(self, full, refs):
        """Count and digest of each ref."""
        version = json.loads(self.read(self.pointer(full.removeprefix("lake."))))["format-version"]
        lineage = ", _row_id, _last_updated_sequence_number" if version >= 3 else ""
        out = {}
        for name in refs or {"main": None}:
            at = "" if name == "main" else f" VERSION AS OF '{name}'"
            row = self.sql(f"SELECT count(1), sum(CAST(xxhash64(to_json(r)) AS DECIMAL(38, 0))) FROM (SELECT struct(*{lineage}) AS r FROM {full}{at})")[0]
            out[name] = [row[0], str(row[1])]
        return out

    def metadata(self, name):
        m = json.loads(self.read(self.pointer(name)))
        fields = [f["name"] for s in m["partition-specs"] if s["spec-id"] == m["default-spec-id"] for f in s["fields"]]
        return {
            "specs": sorted(s["spec-id"] for s in m["partition-specs"]), "fields": fields, "schemas": sorted(s["schema-id"] for s in m["schemas"]),
            "log": len(m.get("metadata-log", [])), "next_row_id": m.get("next-row-id"), "sequence": m.get("last-sequence-number", 0),
            "statistics": len(m.get("statistics", [])), "history": [h["snapshot-id"] for h in m.get("snapshot-log", [])],
        }

    def read(self, location):
        import gzip

        data = open(location.removeprefix("file://").removeprefix("file:"), "rb").read()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data

    def seed(self, seed):
        rng = random.Random(seed)
        name = f"db.t{seed}"
        self.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        table = tables.Table(rng, self.sql, self.setup["server"], name)
        table.build()
        folder = os.path.join(self.setup["warehouse"], *name.split("."))
        self.strew(rng, folder)
        backup, pointer = folder + ".backup", self.pointer(name)
        shutil.copytree(folder, backup)
        before = self.state(name)
        print(json.dumps({"seed": seed, "table": table.log}), flush=True)
        for i in range(self.setup["calls"]):
            kind, text = calls.draw(rng, table, before)
            if self.setup.get("only", i) != i:
                continue
            start = time.time()
            try:
                self.compare(seed, i, kind, text, name, before, folder, backup, pointer)
            except Exception:
                print(json.dumps({"seed": seed, "call": text, "broken": traceback.format_exc()[-1500:]}), flush=True)
            sys.stderr.write(f"seed {seed}.{i} {kind} {time.time() - start:.1f} s\n")
        self.restore(name, folder, backup, pointer)
        self.sql(f"DROP TABLE lake.{name}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(backup)

    def strew(self, rng, folder):
        """Old files that nobody named."""
        for i in range(rng.randint(0, 4)):
            path = os.path.join(folder, rng.choice(["data", "metadata", "data/cat=a", "data/x y+%23", "_hidden", "data/.tmp", "elsewhere"]), f"left {i}%.parquet")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write("left behind")
            old = time.time() - rng.choice([1, 3, 10]) * 86400
            os.utime(path, (old, old))

    def restore(self, name, folder, backup, pointer):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(backup, folder)
        self.pointer(name, pointer)

    def compare(self, seed, i, kind, text, name, before, folder, backup, pointer):
        import re

        found = re.search(r"branch => '(\w+)'", text)
        branch = found.group(1) if found else "main"
        if branch != "main":
            before = self.state(name, branch)
        self.restore(name, folder, backup, pointer)
        error, result = None, []
        try:
            result = [r.asDict() for r in self.sql(text)]
        except Exception as e:
            error = str(e).splitlines()[0][:300]
        theirs = None if error else self.state(name, branch)
        self.restore(name, folder, backup, pointer)
        code, answer, output = self.firn(text)
        ours = self.state(name, branch) if code == 0 else None
        differences = compare.call(kind, text, before, {"error": error, "result": result, "state": theirs}, {"code": code, "result": answer, "output": output, "state": ours})
        changed = theirs is not None and (len(theirs["snapshots"]) != len(before["snapshots"]) or theirs["files"] != before["files"])
        line = {"seed": seed, "case": i, "call": text, "changed": changed}
        if error:
            line["spark"] = error
        if code:
            line["firn"] = output[-400:]
        print(json.dumps(line | {"differences": differences}), flush=True)


def main():
    setup = json.loads(sys.argv[1])
    oracle = Oracle(setup)
    for seed in sys.argv[2:]:
        oracle.seed(int(seed))


main()
