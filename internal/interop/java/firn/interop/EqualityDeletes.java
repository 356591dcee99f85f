package firn.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.StructLikeMap;

/**
 * Upserts as streaming writers do: equality deletes of the keys and the new rows in one commit. A key is deleted in each partition that the branch has, or
 * by one global file where the table has an unpartitioned spec.
 */
final class EqualityDeletes {
  private final Table table;
  private final List<String> files = new ArrayList<>();

  private EqualityDeletes(Table table) {
    this.table = table;
  }

  static Map<String, Object> commit(Table table, JsonNode command) throws IOException {
    EqualityDeletes writer = new EqualityDeletes(table);
    String branch = command.path("branch").asText("main");
    RowDelta delta = table.newRowDelta().toBranch(branch);
    int deletes = 0;
    if (!command.path("keys").isEmpty()) {
      List<String> columns = new ArrayList<>();
      command.get("columns").forEach(c -> columns.add(c.asText()));
      Schema keys = table.schema().select(columns);
      List<Record> records = records(keys, command.get("keys"));
      for (DeleteFile f : writer.deletes(keys, records, branch, command.path("global").asBoolean())) {
        delta.addDeletes(f);
        deletes++;
      }
    }
    for (DataFile f : writer.rows(records(table.schema(), command.path("rows")))) {
      delta.addRows(f);
    }
    delta.commit();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("delete_files", deletes);
    answer.put("files", writer.files);
    return answer;
  }

  private List<DeleteFile> deletes(Schema keys, List<Record> records, String branch, boolean global) throws IOException {
    int[] ids = keys.columns().stream().mapToInt(Types.NestedField::fieldId).toArray();
    GenericFileWriterFactory factory =
        new GenericFileWriterFactory.Builder(table).equalityFieldIds(ids).equalityDeleteRowSchema(keys).deleteFileFormat(FileFormat.PARQUET).build();
    List<DeleteFile> out = new ArrayList<>();
    for (PartitionSpec spec : table.specs().values()) {
      if (global && spec.isUnpartitioned()) {
        return List.of(delete(factory, spec, null, records));
      }
    }
    for (PartitionSpec spec : table.specs().values()) {
      for (StructLike partition : partitions(spec, branch)) {
        out.add(delete(factory, spec, spec.isUnpartitioned() ? null : partition, records));
      }
    }
    return out;
  }

  private DeleteFile delete(GenericFileWriterFactory factory, PartitionSpec spec, StructLike partition, List<Record> records) throws IOException {
    EqualityDeleteWriter<Record> writer = factory.newEqualityDeleteWriter(output(spec, partition), spec, partition);
    try (writer) {
      records.forEach(writer::write);
    }
    return writer.toDeleteFile();
  }

  private Iterable<StructLike> partitions(PartitionSpec spec, String branch) throws IOException {
    StructLikeMap<Boolean> seen = StructLikeMap.create(spec.partitionType());
    if (table.snapshot(branch) == null) {
      return seen.keySet();
    }
    try (CloseableIterable<FileScanTask> tasks = table.newScan().useRef(branch).planFiles()) {
      for (FileScanTask task : tasks) {
        if (task.spec().specId() == spec.specId()) {
          seen.put(task.file().partition(), true);
        }
      }
    }
    return seen.keySet();
  }

  private List<DataFile> rows(List<Record> records) throws IOException {
    PartitionSpec spec = table.spec();
    GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table).dataFileFormat(FileFormat.PARQUET).dataSchema(table.schema()).build();
    InternalRecordWrapper wrapper = new InternalRecordWrapper(table.schema().asStruct());
    Map<PartitionKey, List<Record>> byPartition = new LinkedHashMap<>();
    for (Record record : records) {
      PartitionKey key = new PartitionKey(spec, table.schema());
      key.partition(wrapper.wrap(record));
      byPartition.computeIfAbsent(key, k -> new ArrayList<>()).add(record);
    }
    List<DataFile> out = new ArrayList<>();
    for (Map.Entry<PartitionKey, List<Record>> e : byPartition.entrySet()) {
      StructLike partition = spec.isUnpartitioned() ? null : e.getKey();
      DataWriter<Record> writer = factory.newDataWriter(output(spec, partition), spec, partition);
      try (writer) {
        e.getValue().forEach(writer::write);
      }
      out.add(writer.toDataFile());
    }
    return out;
  }

  private EncryptedOutputFile output(PartitionSpec spec, StructLike partition) {
    OutputFileFactory outputs =
        OutputFileFactory.builderFor(table, 0, 0).format(FileFormat.PARQUET).operationId(UUID.randomUUID().toString()).defaultSpec(spec).build();
    EncryptedOutputFile file = partition == null ? outputs.newOutputFile() : outputs.newOutputFile(spec, partition);
    files.add(file.encryptingOutputFile().location());
    return file;
  }

  private static List<Record> records(Schema schema, JsonNode rows) {
    List<Record> out = new ArrayList<>();
    for (JsonNode row : rows) {
      GenericRecord record = GenericRecord.create(schema);
      for (int i = 0; i < row.size(); i++) {
        record.set(i, value(schema.columns().get(i).type(), row.get(i)));
      }
      out.add(record);
    }
    return out;
  }

  /** A value from its plain form: days, microseconds, decimals as text. */
  private static Object value(Type type, JsonNode v) {
    if (v == null || v.isNull()) {
      return null;
    }
    switch (type.typeId()) {
      case BOOLEAN:
        return v.asBoolean();
      case INTEGER:
        return v.asInt();
      case LONG:
        return v.asLong();
      case FLOAT:
        return (float) v.asDouble();
      case DOUBLE:
        return v.asDouble();
      case STRING:
        return v.asText();
      case DATE:
        return LocalDate.ofEpochDay(v.asLong());
      case DECIMAL:
        return new BigDecimal(v.asText()).setScale(((Types.DecimalType) type).scale());
      case TIMESTAMP:
        long micros = v.asLong();
        LocalDateTime at = LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), (int) Math.floorMod(micros, 1_000_000L) * 1000, ZoneOffset.UTC);
        return ((Types.TimestampType) type).shouldAdjustToUTC() ? at.atOffset(ZoneOffset.UTC) : at;
      default:
        throw new IllegalArgumentException("no value of " + type);
    }
  }
}
