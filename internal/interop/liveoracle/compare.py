"""What must be equal after a call of Spark's and the same call of Firn's. The deliberate differences are those of docs/compatibility.md."""

SIZES = {"added-files-size", "removed-files-size", "total-files-size"}
OURS = {"firn.run-id", "firn.commit-id", "firn.job"}
THEIRS = {"spark.app.id", "app-id", "engine-name", "engine-version", "app-name", "iceberg-version"}


def call(kind, text, before, spark, firn):
    if spark["error"] and firn["code"]:
        return []
    if spark["error"]:
        return ["Spark fails, Firn does it: " + spark["error"]]
    if firn["code"]:
        return ["Firn fails: " + firn["output"][-300:]]
    out = []

    def equal(what, theirs, ours):
        if theirs != ours:
            out.append(f"{what}: Spark {theirs}, Firn {ours}")

    theirs, ours = spark["state"], firn["state"]
    equal("rows against those before", {k: v for k, v in before["rows"].items() if k in ours["rows"]}, ours["rows"])
    equal("rows", theirs["rows"], ours["rows"])
    equal("refs", sorted(theirs["refs"]), sorted(ours["refs"]))
    globals()[kind](text, before, spark, firn, equal, out)
    return out


def paths(entries, *contents):
    return {(e["file_path"], e["content_offset"]) for e in entries if e["content"] in contents}


def names(found):
    return sorted(p.rsplit("/", 1)[-1][:60] for p, _ in found)


def new(before, after, *contents):
    was = paths(before["entries"], 0, 1, 2)
    return [e for e in after["entries"] if e["content"] in contents and (e["file_path"], e["content_offset"]) not in was]


def by_partition(entries, *keys):
    out = {}
    for e in entries:
        key = (e["spec_id"], e["partition"])
        at = out.setdefault(key, {"records": 0, "files": 0} | {k: set() for k in keys})
        at["records"] += e["record_count"]
        at["files"] += 1
        for k in keys:
            at[k].add(e[k] or 0)
    return {str(k): {n: sorted(map(str, x)) if isinstance(x, set) else x for n, x in v.items()} for k, v in sorted(out.items(), key=str)}


def drop(entries, key):
    return {p: {k: v for k, v in x.items() if k != key} for p, x in entries.items()}


def column(spark, firn, equal, *columns):
    for c in columns:
        equal(c, spark["result"][0][c] if spark["result"] else None, firn["result"].get(c))


def commits(before, state):
    was = {s["snapshot_id"] for s in before["snapshots"]}
    return [s for s in state["snapshots"] if s["snapshot_id"] not in was]


def summary(theirs, ours, equal, without=()):
    keys = {k for s in (theirs, ours) for k in s} - SIZES - OURS - THEIRS - set(without)
    for k in sorted(keys):
        equal("summary " + k, theirs.get(k), ours.get(k))


def rewrite_data_files(text, before, spark, firn, equal, out):
    theirs, ours = spark["state"], firn["state"]
    was = paths(before["entries"], 0)
    if "max-file-group-" in text or "max-files-to-rewrite" in text:
        return  # Spark's scan hands files on in any order
    equal("selected", names(was - paths(theirs["entries"], 0)), names(was - paths(ours["entries"], 0)))
    column(spark, firn, equal, "rewritten_data_files_count", "rewritten_bytes_count", "failed_data_files_count")
    keep = by_partition(new(before, theirs, 0), "sequence_number", "sort_order_id")
    made = by_partition(new(before, ours, 0), "sequence_number", "sort_order_id")
    equal("outputs' rows, numbers and orders by partition", drop(keep, "files"), drop(made, "files"))
    # a group of ours never mixes specs: files of old specs become more outputs, in more commits
    current = max(e["spec_id"] for e in theirs["entries"]) if theirs["entries"] else 0
    mixed = any(e["content"] == 0 and e["spec_id"] != current for e in before["entries"])
    if "file-size-bytes" not in text and not mixed:
        equal("outputs by partition", {k: v["files"] for k, v in keep.items()}, {k: v["files"] for k, v in made.items()})
        column(spark, firn, equal, "added_data_files_count")
    more = paths(ours["entries"], 1, 2) - paths(theirs["entries"], 1, 2)
    for e in ours["entries"]:
        if (e["file_path"], e["content_offset"]) not in more:
            continue
        # Spark was seen to remove equality deletes that older data files of their partition still need; ours may keep them
        lowest = min([x["sequence_number"] for x in ours["entries"] if x["content"] == 0 and x["spec_id"] == e["spec_id"] and x["partition"] == e["partition"]], default=1 << 62)
        if e["content"] != 2 or e["sequence_number"] <= lowest:
            out.append(f"a delete file that Spark removes stays: content {e['content']}, sequence number {e['sequence_number']}, partition {e['spec_id']} {e['partition']}, lowest of its data files {lowest}")
    a, b = commits(before, theirs), commits(before, ours)
    a = [s for s in a if int(s["summary"].get("deleted-data-files", 0)) or int(s["summary"].get("added-data-files", 0))]  # without the dangling deletes' own
    if not mixed:
        equal("commits", len(a), len(b))
    equal("operations", sorted({s["operation"] for s in a}), sorted({s["operation"] for s in b}))
    if len(a) == len(b) == 1:
        leave = {"removed-delete-files", "removed-position-delete-files", "removed-equality-delete-files", "removed-position-deletes", "removed-equality-deletes", "removed-dvs", "total-delete-files",
                 "total-position-deletes", "total-equality-deletes", "manifests-created", "manifests-kept", "manifests-replaced", "added-data-files", "total-data-files", "changed-partition-count"}
        summary(a[0]["summary"], b[0]["summary"], equal, leave)


def rewrite_position_delete_files(text, before, spark, firn, equal, out):
    theirs, ours = spark["state"], firn["state"]
    was = paths(before["entries"], 1)
    gone, left = was - paths(theirs["entries"], 1), was - paths(ours["entries"], 1)
    if gone - left:
        out.append(f"delete files that Spark removes stay: {names(gone - left)}")
    if left - gone:
        out.append(f"delete files go that Spark keeps: {names(left - gone)}")
    column(spark, firn, equal, "rewritten_delete_files_count", "added_delete_files_count", "rewritten_bytes_count")
    equal("outputs by partition", by_partition(new(before, theirs, 1), "sequence_number"), by_partition(new(before, ours, 1), "sequence_number"))
    equal("equality deletes", names(paths(theirs["entries"], 2)), names(paths(ours["entries"], 2)))
    a, b = commits(before, theirs), commits(before, ours)
    equal("commits", len(a), len(b))
    if len(a) == len(b) == 1:
        summary(a[0]["summary"], b[0]["summary"], equal, {"manifests-created", "manifests-kept", "manifests-replaced"})


def rewrite_manifests(text, before, spark, firn, equal, out):
    theirs, ours = spark["state"], firn["state"]
    column(spark, firn, equal, "rewritten_manifests_count", "added_manifests_count")
    def entries(state):
        return sorted(str((e["file_path"], e["content_offset"], e["sequence_number"], e["snapshot_id"], e["spec_id"], e["partition"])) for e in state["entries"])

    equal("entries", entries(theirs), entries(ours))
    if "sort_by" not in text:
        equal("manifests by spec and content", sorted((m["partition_spec_id"], m["content"]) for m in theirs["manifests"]), sorted((m["partition_spec_id"], m["content"]) for m in ours["manifests"]))
    a, b = commits(before, theirs), commits(before, ours)
    equal("commits", len(a), len(b))
    if len(a) == len(b) == 1:
        summary(a[0]["summary"], b[0]["summary"], equal)


def expire_snapshots(text, before, spark, firn, equal, out):
    theirs, ours = spark["state"], firn["state"]
    column(spark, firn, equal, *spark["result"][0])
    equal("snapshots", sorted(s["snapshot_id"] for s in theirs["snapshots"]), sorted(s["snapshot_id"] for s in ours["snapshots"]))
    equal("history", theirs["history"], ours["history"])
    for key in ("specs", "schemas", "log", "statistics", "next_row_id", "sequence"):
        equal(key, theirs[key], ours[key])
    files(before, theirs, ours, equal)


def files(before, theirs, ours, equal):
    """Files that were there before and are gone."""
    was = {f for f in before["files"] if not f.endswith("version-hint.text")}
    equal("files that went", sorted(was - set(theirs["files"])), sorted(was - set(ours["files"])))


def remove_orphan_files(text, before, spark, firn, equal, out):
    def spelled(locations):
        return sorted(p.replace("file:///", "/").replace("file:/", "/") for p in locations)

    equal("orphans", spelled(r["orphan_file_location"] for r in spark["result"]), spelled(firn["result"].get("orphan_file_location", [])))
    files(before, spark["state"], firn["state"], equal)
