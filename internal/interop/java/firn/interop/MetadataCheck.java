package firn.interop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.HistoryEntry;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.StatisticsFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;

/** Lets Iceberg's own readers go over all that a table's metadata names, and says what they refuse or what does not add up. */
final class MetadataCheck {
  private final Table table;
  private final FileIO io;
  private final List<String> faults = new ArrayList<>();
  private final Map<String, Long> counts = new LinkedHashMap<>();
  private final Set<String> manifests = new HashSet<>();
  private final Set<String> dataFiles = new HashSet<>();

  private MetadataCheck(Table table) {
    this.table = table;
    this.io = table.io();
  }

  static Map<String, Object> check(Table table) throws IOException {
    MetadataCheck check = new MetadataCheck(table);
    check.metadata();
    for (Snapshot snapshot : table.snapshots()) {
      check.snapshot(snapshot);
    }
    for (Map.Entry<String, SnapshotRef> ref : table.refs().entrySet()) {
      check.deletes(ref.getKey(), ref.getValue());
    }
    check.head();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("faults", check.faults);
    answer.put("counts", check.counts);
    return answer;
  }

  private void metadata() {
    TableMetadata metadata = ((HasTableOperations) table).operations().current();
    for (TableMetadata.MetadataLogEntry entry : metadata.previousFiles()) {
      if (!io.newInputFile(entry.file()).exists()) {
        faults.add("the metadata log names " + entry.file() + ", which is gone");
      } else if (counts.merge("metadata_files", 1L, Long::sum) <= 3) {
        TableMetadataParser.read(io, entry.file());
      }
    }
    Set<Long> snapshots = new HashSet<>();
    table.snapshots().forEach(s -> snapshots.add(s.snapshotId()));
    List<HistoryEntry> history = table.history();
    if (!history.isEmpty() && table.currentSnapshot() != null
        && history.get(history.size() - 1).snapshotId() != table.currentSnapshot().snapshotId()) {
      faults.add("the snapshot log does not end with the current snapshot");
    }
    for (HistoryEntry entry : history) {
      if (!snapshots.contains(entry.snapshotId())) {
        faults.add("the snapshot log names " + entry.snapshotId() + ", which is gone");
      }
    }
    for (StatisticsFile f : table.statisticsFiles()) {
      if (!io.newInputFile(f.path()).exists()) {
        faults.add("statistics file " + f.path() + " is gone");
      }
    }
  }

  private void snapshot(Snapshot snapshot) throws IOException {
    Map<String, Long> totals = new HashMap<>();
    Set<String> live = new HashSet<>();
    for (ManifestFile manifest : snapshot.allManifests(io)) {
      if (manifests.add(manifest.path())) {
        counts.merge("manifests", 1L, Long::sum);
        if (io.newInputFile(manifest.path()).getLength() != manifest.length()) {
          faults.add("manifest " + manifest.path() + " has another length than its list says");
        }
      }
      manifest(snapshot, manifest, totals, live);
    }
    total(snapshot, "total-data-files", totals.getOrDefault("data", 0L));
    total(snapshot, "total-delete-files", totals.getOrDefault("deletes", 0L));
    total(snapshot, "total-records", totals.getOrDefault("records", 0L));
    total(snapshot, "total-position-deletes", totals.getOrDefault("positions", 0L));
    total(snapshot, "total-equality-deletes", totals.getOrDefault("equalities", 0L));
    counts.merge("snapshots", 1L, Long::sum);
  }

  private void total(Snapshot snapshot, String key, long want) {
    String said = snapshot.summary() == null ? null : snapshot.summary().get(key);
    if (said != null && Long.parseLong(said) != want) {
      faults.add("snapshot " + snapshot.snapshotId() + " (" + snapshot.operation() + ", " + by(snapshot) + ") says " + key + " " + said + ", its manifests have " + want);
    }
  }

  private static String by(Snapshot snapshot) {
    return snapshot.summary().containsKey("firn.job") ? snapshot.summary().get("firn.job") : snapshot.summary().getOrDefault("engine-name", "?");
  }

  private void manifest(Snapshot snapshot, ManifestFile manifest, Map<String, Long> totals, Set<String> live) throws IOException {
    boolean data = manifest.content() == ManifestContent.DATA;
    long rows = 0;
    long files = 0;
    try (ManifestReader<? extends ContentFile<?>> reader =
        data ? ManifestFiles.read(manifest, io, table.specs()) : ManifestFiles.readDeleteManifest(manifest, io, table.specs())) {
      for (ContentFile<?> f : reader) {
        files++;
        rows += f.recordCount();
        String key = f.location() + (f instanceof DeleteFile d && f.format() == FileFormat.PUFFIN ? "#" + d.contentOffset() : "");
        if (!live.add(key)) {
          faults.add("snapshot " + snapshot.snapshotId() + " has " + key + " twice");
        }
        if (f.dataSequenceNumber() == null || f.dataSequenceNumber() > snapshot.sequenceNumber()) {
          faults.add(key + " has data sequence number " + f.dataSequenceNumber() + " in snapshot " + snapshot.sequenceNumber());
        }
        if (dataFiles.add(f.location()) && !io.newInputFile(f.location()).exists()) {
          faults.add("snapshot " + snapshot.snapshotId() + " needs " + f.location() + ", which is gone");
        }
        count(f, totals);
      }
    }
    int said = (manifest.addedFilesCount() == null ? 0 : manifest.addedFilesCount()) + (manifest.existingFilesCount() == null ? 0 : manifest.existingFilesCount());
    if (manifest.addedFilesCount() != null && said != files) {
      faults.add("manifest " + manifest.path() + " has " + files + " live files, its list says " + said);
    }
    if (manifest.addedRowsCount() != null && manifest.addedRowsCount() + manifest.existingRowsCount() != rows) {
      faults.add("manifest " + manifest.path() + " has " + rows + " live rows, its list says otherwise");
    }
  }

  private void count(ContentFile<?> f, Map<String, Long> totals) {
    if (f instanceof DataFile) {
      totals.merge("data", 1L, Long::sum);
      totals.merge("records", f.recordCount(), Long::sum);
      return;
    }
    totals.merge("deletes", 1L, Long::sum);
    totals.merge(f.content() == FileContent.EQUALITY_DELETES ? "equalities" : "positions", f.recordCount(), Long::sum);
  }

  private void head() throws IOException {
    counts.put("format_version", (long) ((HasTableOperations) table).operations().current().formatVersion());
    if (table.currentSnapshot() == null) {
      return;
    }
    for (ManifestFile manifest : table.currentSnapshot().deleteManifests(io)) {
      try (ManifestReader<DeleteFile> reader = ManifestFiles.readDeleteManifest(manifest, io, table.specs())) {
        for (DeleteFile f : reader) {
          boolean equality = f.content() == FileContent.EQUALITY_DELETES;
          counts.merge(equality ? "head_equality_deletes" : f.format() == FileFormat.PUFFIN ? "head_vectors" : "head_position_deletes", 1L, Long::sum);
        }
      }
    }
  }

  /** Loads the position deletes and vectors of each data file of a branch or tag with Iceberg's loader. */
  private void deletes(String name, SnapshotRef ref) throws IOException {
    BaseDeleteLoader loader = new BaseDeleteLoader(f -> io.newInputFile(f));
    try (CloseableIterable<FileScanTask> tasks = table.newScan().useSnapshot(ref.snapshotId()).planFiles()) {
      for (FileScanTask task : tasks) {
        List<DeleteFile> positions = task.deletes().stream().filter(d -> d.content() == FileContent.POSITION_DELETES).toList();
        if (positions.isEmpty()) {
          continue;
        }
        PositionDeleteIndex index = loader.loadPositionDeletes(positions, task.file().location());
        long[] last = {-1, 0};
        index.forEach(p -> {
          last[0] = Math.max(last[0], p);
          last[1]++;
        });
        if (last[0] >= task.file().recordCount()) {
          faults.add(name + ": a delete at " + last[0] + " of " + task.file().location() + ", which has " + task.file().recordCount() + " rows");
        }
        for (DeleteFile d : positions) {
          if (d.format() == FileFormat.PUFFIN && d.recordCount() != last[1]) {
            faults.add(name + ": the vector of " + task.file().location() + " has " + last[1] + " positions, its manifest says " + d.recordCount());
          }
        }
        counts.merge("delete_sets", 1L, Long::sum);
      }
    }
  }
}
