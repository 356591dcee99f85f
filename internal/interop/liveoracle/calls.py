"""Calls that the live oracle gives to Spark and to Firn, drawn by a seed, word for word the same."""

import datetime


def entries(options):
    return ", options => map(" + ", ".join(f"'{k}', '{v}'" for k, v in options.items()) + ")" if options else ""


def draw(rng, table, state):
    """One call's text: the procedure is the first word. state is what state.of found."""
    kind = rng.choices(["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"], [6, 3, 2, 4, 1])[0]
    return kind, f"CALL lake.system.{kind}(table => '{table.name}'" + globals()[kind](rng, table, state) + ")"


def sizes(rng, state):
    """Target, minimum and maximum around the sizes that the table's files have."""
    data = sorted(e["file_size_in_bytes"] for e in state["entries"] if e["content"] == 0) or [1000]
    out = {}
    pick = rng.random()
    if pick < 0.35:
        at = data[rng.randrange(len(data))]
        out["target-file-size-bytes"] = max(10, at * rng.choice([1, 2, 5]))
        if rng.random() < 0.5:
            out["min-file-size-bytes"] = min(at, out["target-file-size-bytes"] - 1)
            out["max-file-size-bytes"] = max(out["target-file-size-bytes"] + 1, at + rng.choice([0, 1, 5000]))
    elif pick < 0.5:
        out["min-file-size-bytes"] = data[rng.randrange(len(data))]
    return out


def where(rng, table):
    conditions = [
        f"id < {table.next_id // 2}", f"id BETWEEN {table.next_id // 4} AND {table.next_id // 3}", "cat = 'a'", "cat IN ('b', 'c d')", "cat IS NULL", "cat IS NOT NULL AND n > 100",
        "NOT (cat = 'a')", "n IS NULL", "n < -50 OR n >= 600", "ts >= TIMESTAMP '1970-01-01 05:00:00'", "ts < timestamp'1969-12-31 20:00:00'", "d = DATE '1969-12-25'",
        "d > '1970-01-01'", "amount <= -3.25", "amount = 5", "v < -10.5", "v = 3", "name LIKE 'we%'", "name >= 'rt'", "s.a = 7", "s.b = 'b3'", "s.a IN (1, 2) AND id > 10",
        "s IS NULL", "name NOT LIKE 'q%'", "cat <> 'a'", "cat <=> NULL", "id = 3 OR id = 77", "NOT (n BETWEEN 0 AND 400)", "n NOT IN (1, 2)", "true", "false",
        f"id > {table.next_id + 5}", "cat LIKE 'c%' AND NOT (n < 0)", "cast(id as string) = '3'", "id + 1 = 5", "date_format(ts, 'y') = '1970'", "length(name) > 2",
        "bucket(4, id) = 1", "lake.system.bucket(4, id) = 1", "system.days(ts) = DATE '1970-01-01'", "id = '7'", "n = 3.0", "cat = 5", "d = '1969-12-25'", "d < TIMESTAMP '1970-01-01 00:00:00'",
    ]
    if "flag" in table.columns:
        conditions += ["flag", "flag = true", "NOT flag", "flag IS NULL"]
    return rng.choice(conditions)


def quoted(text):
    return "'" + text.replace("'", "\\'") + "'"


def rewrite_data_files(rng, table, state):
    options, text = sizes(rng, state), ""

    def maybe(p, **more):
        if rng.random() < p:
            options.update({k.replace("__", ".").replace("_", "-"): v for k, v in more.items()})

    pick = rng.random()
    if pick < 0.12:
        text += ", strategy => 'sort', sort_order => " + quoted(rng.choice(["n DESC NULLS LAST, id", "cat ASC NULLS FIRST", "id", "name DESC", "bucket(4, id), n", "days(ts), id"]))
    elif pick < 0.2:
        text += ", strategy => 'sort', sort_order => " + quoted(rng.choice(["zorder(n, cat)", "zorder(ts, id)", "zorder(name)", "hilbert(id, n)"]))
    elif pick < 0.24:
        text += ", strategy => 'sort'"
    if rng.random() < 0.25:
        options["rewrite-all"] = "true"
    else:
        maybe(0.6, min_input_files=rng.choice([1, 2, 3, 8]))
    maybe(0.25, delete_file_threshold=rng.choice([0, 1, 2, 3]))
    maybe(0.25, delete_ratio_threshold=rng.choice(["0.01", "0.1", "0.5", "1.0"]))
    maybe(0.2, remove_dangling_deletes="true")
    maybe(0.15, use_starting_sequence_number="false")
    maybe(0.15, max_file_group_size_bytes=rng.choice([1, 8000, 50000]))
    maybe(0.1, max_file_group_input_files=rng.choice([1, 2, 5]))
    maybe(0.1, max_concurrent_file_group_rewrites=rng.choice([1, 3]))
    if rng.random() < 0.2:
        options["partial-progress.enabled"] = "true"
        maybe(0.7, partial_progress__max_commits=rng.choice([1, 2, 3, 7]))
        maybe(0.2, partial_progress__max_failed_commits=rng.choice([0, 2]))
    maybe(0.1, rewrite_job_order=rng.choice(["bytes-asc", "bytes-desc", "files-asc", "files-desc"]))
    if len(state["specs"]) > 1:
        maybe(0.4, output_spec_id=rng.choice(state["specs"]))
    if "strategy" in text:
        maybe(0.3, compression_factor=rng.choice(["0.5", "1.5"]))
        maybe(0.2, shuffle_partitions_per_file=rng.choice([1, 2]))
    text += entries(options)
    if rng.random() < 0.3:
        text += ', where => "' + where(rng, table).replace('"', '\\"') + '"'
    branches = [name for kind, name in table.refs if kind == "BRANCH"]
    if branches and rng.random() < 0.3:
        text += f", branch => '{rng.choice(branches)}'"
    return text


def rewrite_position_delete_files(rng, table, state):
    options = {}
    if rng.random() < 0.5:
        options["rewrite-all"] = "true"
    elif rng.random() < 0.7:
        options["min-input-files"] = rng.choice([1, 2, 3])
    if rng.random() < 0.2:
        options["max-file-group-size-bytes"] = rng.choice([1, 3000, 10000])
    if rng.random() < 0.2:
        options["partial-progress.enabled"] = "true"
        options["partial-progress.max-commits"] = rng.choice([1, 2, 10])
    if rng.random() < 0.15:
        options["target-file-size-bytes"] = rng.choice([500, 2000, 100000])
    text = entries(options)
    if rng.random() < 0.25:
        text += ', where => "' + where(rng, table) + '"'
    return text


def rewrite_manifests(rng, table, state):
    text = ""
    if rng.random() < 0.3:
        text += ", use_caching => " + rng.choice(["true", "false"])
    if rng.random() < 0.4:
        text += f", spec_id => {rng.choice(state['specs'])}"
    elif rng.random() < 0.3 and state["fields"]:
        text += f", sort_by => array('{rng.choice(state['fields'])}')"
    return text


def instant(ms):
    at = datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc)
    return "TIMESTAMP '" + at.strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}'"


def expire_snapshots(rng, table, state):
    text = ""
    stamps = [s["ms"] for s in state["snapshots"]]
    if rng.random() < 0.85 and stamps:
        text += ", older_than => " + instant(rng.choice(stamps) + rng.choice([0, 0, 1]) if rng.random() < 0.6 else max(stamps) + 1)
    if rng.random() < 0.4:
        text += f", retain_last => {rng.choice([1, 2, 3, 5])}"
    if rng.random() < 0.25 and stamps:
        ids = rng.sample([s["snapshot_id"] for s in state["snapshots"]], min(len(stamps), rng.choice([1, 2])))
        text += ", snapshot_ids => array(" + ", ".join(map(str, ids)) + ")"
    if rng.random() < 0.3:
        text += ", clean_expired_metadata => true"
    if rng.random() < 0.2:
        text += ", stream_results => true"
    return text


def remove_orphan_files(rng, table, state):
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=rng.choice([2, 4]))
    text = f", older_than => TIMESTAMP '{at:%Y-%m-%d %H:%M:%S}'"
    if rng.random() < 0.3:
        text += ", dry_run => true"
    if rng.random() < 0.3:
        text += ", prefix_listing => true"
    return text
