package firn.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.ReachableFileUtil;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.jdbc.JdbcCatalog;

/** What Iceberg's library sees of a table: its health, its rows at a snapshot, and every file that it may still need. */
final class TableState {
  private TableState() {}

  /** Makes a table, and its namespace where there is none. */
  static Map<String, Object> create(JdbcCatalog catalog, TableIdentifier name, JsonNode command) {
    if (!catalog.namespaceExists(name.namespace())) {
      catalog.createNamespace(name.namespace());
    }
    Schema schema = SchemaParser.fromJson(command.get("schema").toString());
    PartitionSpec.Builder spec = PartitionSpec.builderFor(schema);
    command.path("partition").forEach(column -> spec.identity(column.asText()));
    Map<String, String> properties = new LinkedHashMap<>();
    command.path("properties").fields().forEachRemaining(p -> properties.put(p.getKey(), p.getValue().asText()));
    return Map.of("location", catalog.buildTable(name, schema).withPartitionSpec(spec.build()).withProperties(properties).create().location());
  }

  /** Live files of the head by partition, and the summaries of the retained snapshots. */
  static Map<String, Object> health(Table table) throws IOException {
    Snapshot head = table.currentSnapshot();
    Map<String, Integer> data = new TreeMap<>();
    int[] deletes = new int[2];
    long rows = 0;
    for (ManifestFile manifest : head.dataManifests(table.io())) {
      try (CloseableIterable<DataFile> files = ManifestFiles.read(manifest, table.io(), table.specs())) {
        for (DataFile file : files) {
          data.merge(table.specs().get(file.specId()).partitionToPath(file.partition()), 1, Integer::sum);
          rows += file.recordCount();
        }
      }
    }
    for (ManifestFile manifest : head.deleteManifests(table.io())) {
      try (CloseableIterable<DeleteFile> files = ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())) {
        for (DeleteFile file : files) {
          deletes[file.content() == FileContent.POSITION_DELETES ? 0 : 1]++;
        }
      }
    }
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("snapshot_id", Long.toString(head.snapshotId()));
    out.put("data_files", data);
    out.put("physical_rows", rows);
    out.put("position_deletes", deletes[0]);
    out.put("equality_deletes", deletes[1]);
    out.put("manifests", head.allManifests(table.io()).size());
    Map<String, Object> snapshots = new LinkedHashMap<>();
    table.snapshots().forEach(s -> snapshots.put(Long.toString(s.snapshotId()), summary(s)));
    out.put("snapshots", snapshots);
    return out;
  }

  private static Map<String, String> summary(Snapshot snapshot) {
    Map<String, String> out = new LinkedHashMap<>(snapshot.summary());
    out.put("operation", snapshot.operation());
    return out;
  }

  /** The values of some columns at a snapshot, one array a row. */
  static Map<String, Object> rows(Table table, JsonNode command) throws IOException {
    long snapshot = command.get("snapshot_id").asLong();
    List<String> columns = new ArrayList<>();
    command.get("columns").forEach(c -> columns.add(c.asText()));
    Schema schema = table.schema().select(columns);
    List<List<Object>> out = new ArrayList<>();
    try (CloseableIterable<Record> records = IcebergGenerics.read(table).useSnapshot(snapshot).project(schema).build()) {
      for (Record record : records) {
        List<Object> row = new ArrayList<>();
        columns.forEach(c -> row.add(record.getField(c)));
        out.add(row);
      }
    }
    return Map.of("rows", out);
  }

  /** The locations of all files that any snapshot of the table, or its log, names. */
  static Map<String, Object> reachable(Table table) throws IOException {
    TreeSet<String> out = new TreeSet<>(ReachableFileUtil.metadataFileLocations(table, false));
    out.addAll(ReachableFileUtil.manifestListLocations(table));
    out.addAll(ReachableFileUtil.statisticsFilesLocations(table));
    TreeSet<String> read = new TreeSet<>();
    for (Snapshot snapshot : table.snapshots()) {
      for (ManifestFile manifest : snapshot.allManifests(table.io())) {
        out.add(manifest.path());
        if (read.add(manifest.path())) {
          entries(table, manifest, out);
        }
      }
    }
    return Map.of("files", out);
  }

  private static void entries(Table table, ManifestFile manifest, TreeSet<String> out) throws IOException {
    if (manifest.content() == ManifestContent.DATA) {
      try (CloseableIterable<DataFile> files = ManifestFiles.read(manifest, table.io(), table.specs())) {
        files.forEach(file -> out.add(file.location()));
      }
      return;
    }
    try (CloseableIterable<DeleteFile> files = ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())) {
      files.forEach(file -> out.add(file.location()));
    }
  }
}
