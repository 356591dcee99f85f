package firn.parquet;

import java.io.IOException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.NanoTime;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.ParquetReader;
import org.apache.parquet.hadoop.api.ReadSupport;
import org.apache.parquet.hadoop.example.GroupReadSupport;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;

/** Says what is in files of one schema: all rows, and what filters find in them. */
final class Reading {
  /** Read from the jars once: that takes longer than most files. */
  private static final Configuration DEFAULTS = new Configuration();

  private final List<String> files;
  private final List<Group> rows = new ArrayList<>();
  private MessageType schema;

  /** Opens a file's rows with a configuration: the builders that take a path read one from the jars each time. */
  private static final class Rows extends ParquetReader.Builder<Group> {
    Rows(String file, Configuration conf) throws IOException {
      super(HadoopInputFile.fromPath(new Path(file), conf));
    }

    @Override
    protected ReadSupport<Group> getReadSupport() {
      return new GroupReadSupport();
    }
  }

  /** Reads all rows, or those whose column gone is 0. */
  Reading(List<String> files, boolean kept) throws IOException {
    this.files = files;
    for (String file : files) {
      try (ParquetFileReader r = ParquetFileReader.open(HadoopInputFile.fromPath(new Path(file), DEFAULTS))) {
        schema = r.getFooter().getFileMetaData().getSchema();
      }
      try (ParquetReader<Group> in = new Rows(file, DEFAULTS).build()) {
        for (Group row = in.read(); row != null; row = in.read()) {
          if (!kept || row.getInteger("gone", 0) == 0) {
            rows.add(row);
          }
        }
      }
    }
  }

  Map<String, Object> facts(boolean found) throws Exception {
    Map<String, Object> out = new LinkedHashMap<>();
    List<Long> ids = new ArrayList<>();
    rows.forEach(r -> ids.add(r.getLong("id", 0)));
    List<Long> backwards = new ArrayList<>(ids);
    backwards.sort(Comparator.reverseOrder());
    out.put("rows", rows.size());
    out.put("order", digest(ids.toString()));
    out.put("descending", ids.equals(backwards));
    rows.sort(Comparator.comparingLong(r -> r.getLong("id", 0)));
    Map<String, String> digests = new TreeMap<>();
    for (int f = 0; f < schema.getFieldCount(); f++) {
      StringBuilder text = new StringBuilder();
      for (Group row : rows) {
        field(text, row, schema.getType(f), f);
      }
      digests.put(schema.getFieldName(f), digest(text.toString()));
    }
    out.put("digests", digests);
    Map<String, Object> columns = new TreeMap<>();
    walk(columns, new ArrayList<>(), schema, found);
    out.put("columns", columns);
    return out;
  }

  private static String digest(String text) throws Exception {
    byte[] sum = MessageDigest.getInstance("SHA-256").digest(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    return HexFormat.of().formatHex(sum, 0, 8);
  }

  private static void field(StringBuilder text, Group g, Type t, int f) {
    text.append('[');
    for (int i = 0; i < g.getFieldRepetitionCount(f); i++) {
      if (t.isPrimitive()) {
        text.append(value(g, t.asPrimitiveType(), f, i)).append(',');
        continue;
      }
      GroupType inner = t.asGroupType();
      for (int c = 0; c < inner.getFieldCount(); c++) {
        field(text, g.getGroup(f, i), inner.getType(c), c);
      }
      text.append(';');
    }
    text.append(']');
  }

  private static String value(Group g, PrimitiveType t, int f, int i) {
    return switch (t.getPrimitiveTypeName()) {
      case BOOLEAN -> String.valueOf(g.getBoolean(f, i));
      case INT32 -> String.valueOf(g.getInteger(f, i));
      case INT64 -> String.valueOf(g.getLong(f, i));
      case INT96 -> String.valueOf(micros(NanoTime.fromBinary(g.getInt96(f, i))));
      case FLOAT -> Integer.toHexString(Float.floatToRawIntBits(g.getFloat(f, i)));
      case DOUBLE -> Long.toHexString(Double.doubleToRawLongBits(g.getDouble(f, i)));
      default -> t.getLogicalTypeAnnotation() instanceof LogicalTypeAnnotation.DecimalLogicalTypeAnnotation
          ? new java.math.BigInteger(g.getBinary(f, i).getBytes()).toString() : HexFormat.of().formatHex(g.getBinary(f, i).getBytes());
    };
  }

  private static long micros(NanoTime t) {
    return (t.getJulianDay() - 2_440_588L) * 86_400_000_000L + t.getTimeOfDayNanos() / 1000;
  }

  private void walk(Map<String, Object> out, List<String> path, GroupType group, boolean found) throws IOException {
    for (Type t : group.getFields()) {
      List<String> at = new ArrayList<>(path);
      at.add(t.getName());
      if (t.isRepetition(Type.Repetition.REPEATED)) {
        return;
      }
      if (t.isPrimitive()) {
        out.put(String.join(".", at), column(at, t.asPrimitiveType(), found));
      } else {
        walk(out, at, t.asGroupType(), found);
      }
    }
  }

  /** Entries of a row's column: none when it or a struct around it is null. */
  private static Object at(Group row, List<String> path, PrimitiveType t) {
    Group g = row;
    for (String step : path.subList(0, path.size() - 1)) {
      if (g.getFieldRepetitionCount(step) == 0) {
        return null;
      }
      g = g.getGroup(step, 0);
    }
    String name = path.get(path.size() - 1);
    if (g.getFieldRepetitionCount(name) == 0) {
      return null;
    }
    int f = g.getType().getFieldIndex(name);
    return switch (t.getPrimitiveTypeName()) {
      case BOOLEAN -> g.getBoolean(f, 0);
      case INT32 -> g.getInteger(f, 0);
      case INT64 -> g.getLong(f, 0);
      case INT96 -> micros(NanoTime.fromBinary(g.getInt96(f, 0)));
      case FLOAT -> g.getFloat(f, 0);
      case DOUBLE -> g.getDouble(f, 0);
      default -> g.getBinary(f, 0);
    };
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private Map<String, Object> column(List<String> path, PrimitiveType t, boolean found) throws IOException {
    List<Object> values = new ArrayList<>();
    int nulls = 0;
    for (Group row : rows) {
      Object v = at(row, path, t);
      if (v == null) {
        nulls++;
      } else if (!(v instanceof Float x && x.isNaN()) && !(v instanceof Double y && y.isNaN())) {
        values.add(v);
      }
    }
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("nulls", nulls);
    out.put("present", rows.size() - nulls);
    boolean filtered = found && t.getPrimitiveTypeName() != PrimitiveTypeName.INT96;
    List<Integer> counts = new ArrayList<>();
    if (filtered) {
      counts.add(count(path, t, null));
    }
    if (!values.isEmpty()) {
      boolean plain = t.getPrimitiveTypeName() == PrimitiveTypeName.INT96;
      Comparator<Object> order = plain ? (a, b) -> ((Comparable) a).compareTo(b) : (Comparator) t.comparator();
      for (Object bound : List.of(Collections.min(values, order), Collections.max(values, order))) {
        String name = out.containsKey("min") ? "max" : "min";
        out.put(name, spell(bound, t));
        out.put(name + "_hits", values.stream().filter(v -> order.compare(v, bound) == 0).count());
        if (filtered) {
          counts.add(count(path, t, bound));
        }
      }
    }
    if (filtered) {
      out.put("found", counts);
    }
    return out;
  }

  private static String spell(Object bound, PrimitiveType t) {
    if (!(bound instanceof Binary b)) {
      return bound.toString();
    }
    boolean decimal = t.getLogicalTypeAnnotation() instanceof LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
    return decimal ? new java.math.BigInteger(b.getBytes()).toString() : HexFormat.of().formatHex(b.getBytes());
  }

  /** Rows that a filter finds, with statistics, dictionaries, page indexes and bloom filters in use. */
  private int count(List<String> path, PrimitiveType t, Object bound) throws IOException {
    Configuration conf = new Configuration(DEFAULTS);
    conf.set(ReadSupport.PARQUET_READ_SCHEMA, new MessageType("m", projected(schema, path)).toString());
    int n = 0;
    for (String file : files) {
      try (ParquetReader<Group> in = new Rows(file, conf).withFilter(FilterCompat.get(equal(String.join(".", path), t, bound))).build()) {
        while (in.read() != null) {
          n++;
        }
      }
    }
    return n;
  }

  private static List<Type> projected(GroupType group, List<String> path) {
    Type t = group.getType(path.get(0));
    if (path.size() > 1) {
      return List.of(t.asGroupType().withNewFields(projected(t.asGroupType(), path.subList(1, path.size()))));
    }
    return List.of(t);
  }

  private static FilterPredicate equal(String column, PrimitiveType t, Object v) {
    return switch (t.getPrimitiveTypeName()) {
      case BOOLEAN -> FilterApi.eq(FilterApi.booleanColumn(column), (Boolean) v);
      case INT32 -> FilterApi.eq(FilterApi.intColumn(column), (Integer) v);
      case INT64 -> FilterApi.eq(FilterApi.longColumn(column), (Long) v);
      case FLOAT -> FilterApi.eq(FilterApi.floatColumn(column), (Float) v);
      case DOUBLE -> FilterApi.eq(FilterApi.doubleColumn(column), (Double) v);
      default -> FilterApi.eq(FilterApi.binaryColumn(column), (Binary) v);
    };
  }
}
