package firn.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableUtil;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.GenericDeleteFilter;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetReaders;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.util.StructLikeMap;

/**
 * Deletes rows by key as Spark's merge-on-read does: it reads where they are, writes deletion vectors (version 3) or position deletes, and commits with
 * Spark's checks of a DELETE. Whoever replaced one of the files meanwhile makes it read again.
 */
final class PositionDeletes {
  private static final int TRIES = 20;

  private final Table table;
  private final String column;
  private final List<Object> keys;
  /** The data files with rows to delete, and the rows' positions. */
  private final Map<FileScanTask, List<Long>> positions = new LinkedHashMap<>();
  private long found;

  private PositionDeletes(Table table, String column, List<Object> keys) {
    this.table = table;
    this.column = column;
    this.keys = keys;
  }

  /** Deletes the rows whose column has one of the keys, all long; "together" puts the deletes of a partition into one file (version 2). */
  static Map<String, Object> commit(Table table, JsonNode command) throws IOException {
    List<Object> keys = new ArrayList<>();
    command.get("keys").forEach(k -> keys.add(k.asLong()));
    for (int again = 0; ; again++) {
      PositionDeletes delete = new PositionDeletes(table, command.get("column").asText(), keys);
      long snapshot = table.currentSnapshot().snapshotId();
      delete.locate(snapshot);
      Map<String, Object> answer = new LinkedHashMap<>();
      answer.put("rows", delete.found);
      answer.put("again", again);
      try {
        answer.put("delete_files", delete.write(snapshot, command.path("together").asBoolean()));
        return answer;
      } catch (ValidationException e) {
        if (again == TRIES) {
          throw e;
        }
        table.refresh();
      }
    }
  }

  private void locate(long snapshot) throws IOException {
    Expression condition = Expressions.in(column, keys);
    Schema wanted = new Schema(table.schema().findField(column), MetadataColumns.ROW_POSITION);
    try (CloseableIterable<FileScanTask> tasks = table.newScan().useSnapshot(snapshot).filter(condition).planFiles()) {
      for (FileScanTask task : tasks) {
        List<Long> rows = rows(task, wanted);
        if (!rows.isEmpty()) {
          positions.put(task, rows);
          found += rows.size();
        }
      }
    }
  }

  private List<Long> rows(FileScanTask task, Schema wanted) throws IOException {
    GenericDeleteFilter filter = new GenericDeleteFilter(table.io(), task, table.schema(), wanted);
    Schema read = filter.requiredSchema();
    List<Long> out = new ArrayList<>();
    try (CloseableIterable<Record> records =
        Parquet.read(table.io().newInputFile(task.file()))
            .project(read)
            .createReaderFunc(file -> GenericParquetReaders.buildReader(read, file))
            .build()) {
      for (Record record : filter.filter(records)) {
        if (keys.contains(record.getField(column))) {
          out.add((Long) record.getField(MetadataColumns.ROW_POSITION.name()));
        }
      }
    }
    return out;
  }

  private int write(long snapshot, boolean together) throws IOException {
    if (positions.isEmpty()) {
      return 0;
    }
    RowDelta delta = table.newRowDelta().validateFromSnapshot(snapshot).validateDeletedFiles().validateNoConflictingDeleteFiles();
    delta.conflictDetectionFilter(Expressions.in(column, keys));
    delta.validateDataFilesExist(positions.keySet().stream().map(task -> task.file().location()).toList());
    List<DeleteFile> made = TableUtil.formatVersion(table) >= 3 ? vectors(delta) : files(together);
    made.forEach(delta::addDeletes);
    delta.commit();
    return made.size();
  }

  /** One vector a data file, which takes over what was deleted of it before. */
  private List<DeleteFile> vectors(RowDelta delta) throws IOException {
    Map<String, List<DeleteFile>> before = new HashMap<>();
    positions.keySet().forEach(task -> before.put(task.file().location(), task.deletes().stream().filter(PositionDeletes::byPosition).toList()));
    BaseDeleteLoader loader = new BaseDeleteLoader(file -> table.io().newInputFile(file));
    BaseDVFileWriter writer = new BaseDVFileWriter(output(FileFormat.PUFFIN), path -> previous(loader, before, path));
    try (writer) {
      positions.forEach((task, rows) -> rows.forEach(row -> writer.delete(task.file().location(), row, task.spec(), task.partition())));
    }
    writer.result().rewrittenDeleteFiles().forEach(delta::removeDeletes);
    return writer.result().deleteFiles();
  }

  private static PositionDeleteIndex previous(BaseDeleteLoader loader, Map<String, List<DeleteFile>> before, String path) {
    List<DeleteFile> files = before.getOrDefault(path, List.of());
    return files.isEmpty() ? null : loader.loadPositionDeletes(files, path);
  }

  private static boolean byPosition(ContentFile<?> file) {
    return file.content() == FileContent.POSITION_DELETES;
  }

  private List<DeleteFile> files(boolean together) throws IOException {
    List<DeleteFile> out = new ArrayList<>();
    if (!together) {
      for (FileScanTask task : positions.keySet()) {
        out.add(file(List.of(task)));
      }
      return out;
    }
    StructLikeMap<List<FileScanTask>> byPartition = StructLikeMap.create(table.spec().partitionType());
    positions.keySet().forEach(task -> byPartition.computeIfAbsent(task.partition(), () -> new ArrayList<>()).add(task));
    for (List<FileScanTask> tasks : byPartition.values()) {
      out.add(file(tasks));
    }
    return out;
  }

  private DeleteFile file(List<FileScanTask> tasks) throws IOException {
    TreeMap<String, List<Long>> sorted = new TreeMap<>();
    tasks.forEach(task -> sorted.put(task.file().location(), positions.get(task)));
    StructLike partition = tasks.get(0).partition();
    GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table).deleteFileFormat(FileFormat.PARQUET).build();
    PositionDeleteWriter<Record> writer =
        factory.newPositionDeleteWriter(output(FileFormat.PARQUET).newOutputFile(table.spec(), partition), table.spec(), partition);
    try (writer) {
      PositionDelete<Record> row = PositionDelete.create();
      sorted.forEach((path, rows) -> rows.stream().sorted().forEach(at -> writer.write(row.set(path, at))));
    }
    return writer.toDeleteFile();
  }

  private OutputFileFactory output(FileFormat format) {
    return OutputFileFactory.builderFor(table, 0, 0).format(format).operationId(UUID.randomUUID().toString()).defaultSpec(table.spec()).build();
  }
}
