package firn.interop;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.Schema;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** Adds up rows: count, digest and facts by top-level column. The canonical text of a value is described in testdata/reference/README.md. */
final class Rows {
  private static final int KEPT = 1000;

  private final List<Types.NestedField> fields;
  private final Map<String, Column> columns = new LinkedHashMap<>();
  private final List<String> texts = new ArrayList<>();
  private final MessageDigest sha;
  private long count;
  private long sum;

  Rows(Schema schema) {
    fields = schema.columns();
    for (Types.NestedField f : fields) {
      if (f.type().isPrimitiveType()) {
        columns.put(f.name(), new Column());
      }
    }
    try {
      sha = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Adds a row, its values in the order of the schema. */
  void add(Getter row) {
    StringBuilder text = new StringBuilder("{");
    for (int i = 0; i < fields.size(); i++) {
      Types.NestedField f = fields.get(i);
      Object value = row.get(i);
      String spelt = spell(f.type(), value);
      text.append(i == 0 ? "" : ",").append(quote(f.name())).append(':').append(spelt);
      Column c = columns.get(f.name());
      if (c != null) {
        c.see(f.type(), value, spelt);
      }
    }
    String line = text.append('}').toString();
    sum += ByteBuffer.wrap(sha.digest(line.getBytes(UTF_8))).getLong();
    count++;
    if (texts.size() <= KEPT) {
      texts.add(line);
    }
  }

  /** The sums under the names that the Go tests decode. */
  Map<String, Object> content() {
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("Count", count);
    out.put("Digest", String.format("%016x", sum));
    out.put("Columns", columns);
    out.put("Rows", count <= KEPT ? texts.stream().sorted().toList() : null);
    return out;
  }

  /** Where a row's values come from. */
  interface Getter {
    Object get(int position);
  }

  /** Facts of one column, in the form of icebergtest.ColumnFacts. */
  static final class Column {
    public long Values;
    public long Nulls;
    public long NaN;
    public String Min = "";
    public String Max = "";
    private Object min;
    private Object max;

    void see(Type type, Object value, String spelt) {
      Values++;
      if (value == null) {
        Nulls++;
      } else if (value instanceof Double d && d.isNaN() || value instanceof Float f && f.isNaN()) {
        NaN++;
      } else {
        Object key = key(value);
        if (min == null || compare(key, min) < 0) {
          min = key;
          Min = spelt;
        }
        if (max == null || compare(key, max) > 0) {
          max = key;
          Max = spelt;
        }
      }
    }

    private static Object key(Object value) {
      if (value instanceof CharSequence s) {
        return s.toString().getBytes(UTF_8);
      }
      return value instanceof ByteBuffer b ? bytes(b) : value;
    }

    @SuppressWarnings("unchecked")
    private static int compare(Object a, Object b) {
      return a instanceof byte[] x ? Arrays.compareUnsigned(x, (byte[]) b) : ((Comparable<Object>) a).compareTo(b);
    }
  }

  static String spell(Type type, Object value) {
    if (value == null) {
      return "null";
    }
    switch (type.typeId()) {
      case BOOLEAN, INTEGER, LONG:
        return value.toString();
      case FLOAT:
        return String.format("\"0x%08x\"", Float.floatToIntBits((Float) value));
      case DOUBLE:
        return String.format("\"0x%016x\"", Double.doubleToLongBits((Double) value));
      case DECIMAL:
        return '"' + ((BigDecimal) value).setScale(((Types.DecimalType) type).scale()).toPlainString() + '"';
      case DATE:
        return Long.toString(((LocalDate) value).toEpochDay());
      case TIMESTAMP:
        return Long.toString(micros(value));
      case STRING:
        return quote(value.toString());
      case UUID:
        return '"' + (value instanceof UUID u ? u.toString() : value.toString()) + '"';
      case BINARY, FIXED:
        return '"' + HexFormat.of().formatHex(value instanceof ByteBuffer b ? bytes(b) : (byte[]) value) + '"';
      default:
        throw new IllegalArgumentException("no canonical text for values of " + type);
    }
  }

  private static long micros(Object value) {
    Instant at =
        value instanceof Instant i ? i
            : value instanceof OffsetDateTime o ? o.toInstant()
            : ((LocalDateTime) value).toInstant(ZoneOffset.UTC);
    return ChronoUnit.MICROS.between(Instant.EPOCH, at);
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] out = new byte[buffer.remaining()];
    buffer.duplicate().get(out);
    return out;
  }

  private static String quote(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }
}
