package firn.parquet;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.column.ParquetProperties.WriterVersion;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.NanoTime;
import org.apache.parquet.hadoop.ParquetReader;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.example.GroupReadSupport;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.parquet.schema.Types;

/** Copies files row by row and chooses how the copies are encoded. */
final class Writing {
  private static final long MICROS_A_DAY = 86_400_000_000L;
  private static final int JULIAN_EPOCH = 2_440_588;

  private final String encoding;
  private final WriterVersion version;
  private final CompressionCodecName codec;

  Writing(String encoding, int version, String codec) {
    this.encoding = encoding;
    this.version = version == 1 ? WriterVersion.PARQUET_1_0 : WriterVersion.PARQUET_2_0;
    this.codec = CompressionCodecName.valueOf(codec.toUpperCase());
  }

  void all(List<String> from, List<String> to) throws IOException {
    for (int i = 0; i < from.size(); i++) {
      one(new Path(from.get(i)), new Path(to.get(i)));
    }
  }

  private void one(Path from, Path to) throws IOException {
    Configuration conf = new Configuration();
    MessageType source;
    try (ParquetFileReader r = ParquetFileReader.open(HadoopInputFile.fromPath(from, conf))) {
      source = r.getFooter().getFileMetaData().getSchema();
    }
    MessageType schema = encoding.equals("legacy") ? legacy(source) : source;
    boolean dictionary = encoding.equals("dictionary") || encoding.equals("fallback") || encoding.equals("legacy");
    ExampleParquetWriter.Builder b = ExampleParquetWriter.builder(to).withType(schema).withConf(conf).withCompressionCodec(codec).withWriterVersion(version)
        .withDictionaryEncoding(dictionary).withPageRowCountLimit(90).withMinRowCountForPageSizeCheck(10).withMaxRowCountForPageSizeCheck(50)
        .withPageSize(2000).withRowGroupSize(60_000L);
    if (encoding.equals("fallback")) {
      b = b.withDictionaryPageSize(300);
    }
    if (encoding.equals("split")) {
      b = b.withByteStreamSplitEncoding(true);
      for (ColumnDescriptor c : schema.getColumns()) { // For single columns it splits integers and values of fixed length, too.
        PrimitiveTypeName type = c.getPrimitiveType().getPrimitiveTypeName();
        if (version == WriterVersion.PARQUET_2_0 && type != PrimitiveTypeName.BOOLEAN && type != PrimitiveTypeName.BINARY) {
          b = b.withByteStreamSplitEncoding(String.join(".", c.getPath()), true);
        }
      }
    }
    try (ParquetReader<Group> in = ParquetReader.builder(new GroupReadSupport(), from).build(); ParquetWriter<Group> out = b.build()) {
      for (Group row = in.read(); row != null; row = in.read()) {
        out.write(schema == source ? row : old(row, schema));
      }
    }
  }

  /** The schema as old writers had it: decimals of any length in bytes, timestamps as INT96. */
  private static MessageType legacy(MessageType schema) {
    List<Type> fields = new ArrayList<>();
    for (Type t : schema.getFields()) {
      Type changed = t;
      if (t.isPrimitive() && t.getLogicalTypeAnnotation() instanceof DecimalLogicalTypeAnnotation d) {
        changed = Types.primitive(PrimitiveTypeName.BINARY, t.getRepetition()).as(d).id(t.getId().intValue()).named(t.getName());
      } else if (instant(t)) {
        changed = Types.primitive(PrimitiveTypeName.INT96, t.getRepetition()).id(t.getId().intValue()).named(t.getName());
      }
      fields.add(changed);
    }
    return new MessageType(schema.getName(), fields);
  }

  private static boolean instant(Type t) {
    return t.isPrimitive() && t.getLogicalTypeAnnotation() instanceof TimestampLogicalTypeAnnotation a && a.isAdjustedToUTC()
        && a.getUnit() == org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit.MICROS;
  }

  private static Group old(Group row, MessageType schema) {
    Group out = new org.apache.parquet.example.data.simple.SimpleGroup(schema);
    for (int f = 0; f < schema.getFieldCount(); f++) {
      for (int i = 0; i < row.getFieldRepetitionCount(f); i++) {
        Type was = row.getType().getType(f);
        PrimitiveTypeName now = schema.getType(f).isPrimitive() ? schema.getType(f).asPrimitiveType().getPrimitiveTypeName() : null;
        if (now == null) {
          out.add(f, row.getGroup(f, i));
        } else if (now == PrimitiveTypeName.INT96) {
          long micros = row.getLong(f, i);
          long day = Math.floorDiv(micros, MICROS_A_DAY);
          out.add(f, new NanoTime((int) day + JULIAN_EPOCH, Math.floorMod(micros, MICROS_A_DAY) * 1000));
        } else if (now != was.asPrimitiveType().getPrimitiveTypeName()) {
          out.add(f, Binary.fromConstantByteArray(unscaled(row, was.asPrimitiveType(), f, i)));
        } else {
          copy(row, out, now, f, i);
        }
      }
    }
    return out;
  }

  /** The fewest bytes that hold a decimal, as Hive and Avro write it. */
  private static byte[] unscaled(Group row, PrimitiveType was, int f, int i) {
    return switch (was.getPrimitiveTypeName()) {
      case INT32 -> java.math.BigInteger.valueOf(row.getInteger(f, i)).toByteArray();
      case INT64 -> java.math.BigInteger.valueOf(row.getLong(f, i)).toByteArray();
      default -> new java.math.BigInteger(row.getBinary(f, i).getBytes()).toByteArray();
    };
  }

  private static void copy(Group from, Group to, PrimitiveTypeName type, int f, int i) {
    switch (type) {
      case BOOLEAN -> to.add(f, from.getBoolean(f, i));
      case INT32 -> to.add(f, from.getInteger(f, i));
      case INT64 -> to.add(f, from.getLong(f, i));
      case FLOAT -> to.add(f, from.getFloat(f, i));
      case DOUBLE -> to.add(f, from.getDouble(f, i));
      default -> to.add(f, from.getBinary(f, i));
    }
  }
}
