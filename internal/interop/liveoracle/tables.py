"""Tables that Spark writes for the live oracle: drawn by a seed, with evolution, merge-on-read deletes, equality deletes, branches and tags."""

import json
import urllib.request

TRANSFORMS = [
    "", "cat", "bucket(4, id)", "bucket(3, name)", "truncate(2, name)", "truncate(100, n)", "truncate(100, amount)", "years(ts)", "months(ts)", "days(ts)",
    "hours(ts)", "days(d)", "months(d)", "cat, bucket(2, id)", "years(d), cat", "flag", "d", "amount",
]

COLUMNS = {
    "id": ("BIGINT", "id"),
    "cat": ("STRING", "CASE WHEN id % 11 = 0 THEN NULL ELSE element_at(array('a', 'b', 'c d', 'e/f', 'é%'), CAST(id % {k} + 1 AS INT)) END"),
    "n": ("INT", "CASE WHEN id % 7 = 0 THEN NULL ELSE CAST(id * 7 % 1000 - 300 AS INT) END"),
    "ts": ("TIMESTAMP", "timestamp_micros(CAST(id AS BIGINT) % 9 * 3600000000 * {k} - 86400000000)"),
    "d": ("DATE", "date_add(DATE '1969-12-20', CAST(id % (4 * {k}) AS INT))"),
    "amount": ("DECIMAL(9, 2)", "CAST(id % 14 - 6 AS DECIMAL(9, 2)) / 4"),
    "v": ("DOUBLE", "CASE WHEN id % 19 = 0 THEN double('NaN') WHEN id % 5 = 0 THEN NULL ELSE id / 8.0 - 20 END"),
    "name": ("STRING", "concat(substr('qwertzuiop', CAST(id % 9 + 1 AS INT), 2), CAST(id AS STRING))"),
    "flag": ("BOOLEAN", "CASE WHEN id % 3 = 0 THEN NULL ELSE id % 2 = 0 END"),
    "s": ("STRUCT<a: INT, b: STRING>", "CASE WHEN id % 13 = 0 THEN NULL ELSE named_struct('a', CAST(id % 50 AS INT), 'b', concat('b', CAST(id % 5 AS STRING))) END"),
    "tags": ("ARRAY<STRING>", "CASE WHEN id % 6 = 0 THEN NULL ELSE array_repeat(concat('t', CAST(id % 4 AS STRING)), CAST(id % 3 AS INT)) END"),
}

NESTED = "STRUCT<a: INT, b: STRING>"


class Table:
    """A table under construction. sql runs a statement in Spark, server is the address of the Java server."""

    def __init__(self, rng, sql, server, name):
        self.rng, self.sql, self.server, self.name, self.log = rng, sql, server, name, []
        self.next_id, self.k, self.version = 0, rng.choice([1, 3, 5]), rng.choice([1, 2, 2, 2, 3, 3])
        self.columns = {c: (typ, e.replace("{k}", str(self.k))) for c, (typ, e) in COLUMNS.items()}
        self.spec = rng.choice(TRANSFORMS)
        self.refs = []

    @property
    def full(self):
        return "lake." + self.name

    def run(self, statement):
        self.log.append(statement)
        self.sql(statement)

    def attempt(self, statement):
        """Runs a statement that not every table can take."""
        try:
            self.run(statement)
            return True
        except Exception as e:
            self.log[-1] = "-- refused: " + statement + ": " + str(e).splitlines()[0][:120]
            return False

    def build(self):
        rng = self.rng
        properties = {
            "format-version": self.version, "write.distribution-mode": "none",
            "write.delete.granularity": rng.choice(["file", "partition"]), "write.delete.distribution-mode": "none", "write.update.distribution-mode": "none",
            "commit.manifest.min-count-to-merge": rng.choice([2, 4, 100]), "write.metadata.previous-versions-max": rng.choice([3, 100]),
            "write.metadata.delete-after-commit.enabled": rng.choice(["true", "false"]), "write.spark.fanout.enabled": "true",
        }
        if self.version > 1:
            properties |= {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
        if rng.random() < 0.2:
            properties["write.metadata.metrics.default"] = rng.choice(["none", "counts", "truncate(4)", "full"])
        if rng.random() < 0.2:
            properties["write.object-storage.enabled"] = "true"
        if rng.random() < 0.15:
            properties["commit.manifest-merge.enabled"] = "false"
        if rng.random() < 0.2:
            properties["write.metadata.compression-codec"] = "gzip"
        columns = ", ".join(f"{c} {t}" for c, (t, _) in self.columns.items())
        partitioned = f" PARTITIONED BY ({self.spec})" if self.spec else ""
        texts = ", ".join(f"'{k}' = '{v}'" for k, v in properties.items())
        self.run(f"CREATE TABLE {self.full} ({columns}) USING iceberg{partitioned} TBLPROPERTIES ({texts})")
        if rng.random() < 0.3:
            self.attempt(f"ALTER TABLE {self.full} WRITE ORDERED BY {rng.choice(['n DESC NULLS LAST', 'cat, id', 'bucket(4, id), n', 'truncate(2, name) DESC'])}")
            self.attempt(f"ALTER TABLE {self.full} SET TBLPROPERTIES ('write.distribution-mode' = 'none')")
        steps = rng.choices(["insert", "delete", "update", "evolve", "schema", "ref", "equality", "upgrade", "rollback", "replace"],
                            [10, 5, 3, 2, 2, 2, 2, 1, 0.5, 1], k=rng.randint(4, 9))
        for step in ["insert", "insert"] + steps:
            getattr(self, "do_" + step)()

    def target(self):
        return self.full

    def rows(self, low, high, files):
        hint = f"/*+ REPARTITION({files}) */ " if files else ""
        values = ", ".join(f"{e} AS {c}" for c, (_, e) in self.columns.items())
        return f"SELECT {hint}{values} FROM range({low}, {high}, 1, 1)"

    def do_insert(self):
        count = self.rng.choice([3, 20, 60, 150, 150, 600])
        low, self.next_id = self.next_id, self.next_id + count
        self.run(f"INSERT INTO {self.full} {self.rows(low, self.next_id, self.rng.choice([0, 0, 2, 4, 6]))}")

    def do_delete(self):
        of = self.rng.choice([3, 10, 40])
        where = f"id % {of} = {self.rng.randrange(of)}"
        if self.rng.random() < 0.3:
            where = f"id < {self.rng.randrange(max(2, self.next_id))} AND {where}"
        self.run(f"DELETE FROM {self.full} WHERE {where}")

    def do_update(self):
        of = self.rng.choice([7, 30])
        self.run(f"UPDATE {self.full} SET v = v + 1 WHERE id % {of} = {self.rng.randrange(of)}")

    def do_replace(self):
        low = self.rng.randrange(max(1, self.next_id))
        self.attempt(f"INSERT OVERWRITE {self.full} {self.rows(low, low + 15, 0)}" if self.spec and self.rng.random() < 0.5 else f"DELETE FROM {self.full} WHERE cat = 'a'")

    def do_evolve(self):
        field = self.rng.choice([t for t in TRANSFORMS if t and "," not in t.replace("(4, ", "").replace("(3, ", "").replace("(2, ", "").replace("(100, ", "").replace("(50, ", "")])
        kind = self.rng.choice(["ADD", "ADD", "DROP"])
        if kind == "DROP" and self.spec:
            field = self.spec.split(", ")[0] if "(" not in self.spec else self.spec
        self.attempt(f"ALTER TABLE {self.full} {kind} PARTITION FIELD {field}")

    def do_schema(self):
        kind = self.rng.choice(["add", "widen", "rename", "drop", "nested"])
        if kind == "add":
            name = f"x{len(self.columns)}"
            if self.attempt(f"ALTER TABLE {self.full} ADD COLUMN {name} INT"):
                self.columns[name] = ("INT", "CAST(id % 17 AS INT)")
        elif kind == "widen" and "n" in self.columns and self.columns["n"][0] == "INT":
            if self.attempt(f"ALTER TABLE {self.full} ALTER COLUMN n TYPE BIGINT"):
                self.columns["n"] = ("BIGINT", self.columns["n"][1])
        elif kind == "rename" and "v" in self.columns and self.attempt(f"ALTER TABLE {self.full} RENAME COLUMN flag TO marked"):
            self.columns = {("marked" if c == "flag" else c): x for c, x in self.columns.items()}
        elif kind == "drop" and "tags" in self.columns and self.attempt(f"ALTER TABLE {self.full} DROP COLUMN tags"):
            del self.columns["tags"]
        elif kind == "nested" and self.columns["s"][0] == NESTED and self.attempt(f"ALTER TABLE {self.full} ADD COLUMN s.c BIGINT"):
            self.columns["s"] = ("STRUCT<a: INT, b: STRING, c: BIGINT>", self.columns["s"][1].replace("'b', concat", "'b', concat").replace(
                "'b', concat('b', CAST(id % 5 AS STRING))", "'b', concat('b', CAST(id % 5 AS STRING)), 'c', id"))

    def do_ref(self):
        name = f"r{len(self.refs)}"
        kind = self.rng.choice(["TAG", "TAG", "BRANCH"])
        more = self.rng.choice(["", "", " RETAIN 1 DAYS"])
        if self.attempt(f"ALTER TABLE {self.full} CREATE {kind} {name}{more}"):
            self.refs.append((kind, name))
            if kind == "BRANCH" and self.rng.random() < 0.5:
                low, self.next_id = self.next_id, self.next_id + 10
                self.run(f"INSERT INTO {self.full}.branch_{name} {self.rows(low, self.next_id, 0)}")

    def do_equality(self):
        if self.version == 1:
            return
        keys = [[self.rng.randrange(max(1, self.next_id))] for _ in range(self.rng.choice([1, 5, 30]))]
        command = {"do": "upsert", "table": self.name, "columns": ["id"], "keys": keys, "rows": [], "global": self.rng.random() < 0.5}
        self.log.append("-- equality deletes " + json.dumps(command))
        request = urllib.request.Request(self.server + "/do", json.dumps(command).encode(), {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as e:
            self.log[-1] += " refused: " + e.read().decode()[:200]

    def do_upgrade(self):
        if self.version < 3 and self.attempt(f"ALTER TABLE {self.full} SET TBLPROPERTIES ('format-version' = '{self.version + 1}')"):
            self.version += 1

    def do_rollback(self):
        ids = [r[0] for r in self.sql(f"SELECT snapshot_id FROM {self.full}.history WHERE is_current_ancestor ORDER BY made_current_at")]
        if len(ids) > 2:
            self.attempt(f"CALL lake.system.rollback_to_snapshot('{self.name}', {ids[-2]})")
