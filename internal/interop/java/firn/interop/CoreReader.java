package firn.interop;

import java.io.IOException;
import java.util.Map;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.io.CloseableIterable;

/** Reads a table with the generic reader of Iceberg's library. */
final class CoreReader {
  private CoreReader() {}

  /** The rows of a branch or tag under the table's present schema. */
  static Map<String, Object> read(Table table, String name) throws IOException {
    SnapshotRef ref = table.refs().get(name);
    if (ref == null && !name.equals(SnapshotRef.MAIN_BRANCH)) {
      throw new IllegalArgumentException("no branch or tag " + name);
    }
    Schema schema = table.schema();
    Rows rows = new Rows(schema);
    if (ref != null) {
      IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table).useSnapshot(ref.snapshotId()).project(schema);
      try (CloseableIterable<Record> records = scan.build()) {
        for (Record record : records) {
          rows.add(record::get);
        }
      }
    }
    return rows.content();
  }
}
