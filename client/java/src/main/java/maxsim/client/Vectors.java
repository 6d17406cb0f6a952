package maxsim.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Locale;

/** Token vectors of a query or a document: one row per token, all of one length, in FP32. Immutable. */
public final class Vectors {
  private final float[] values; // row by row
  private final int dim;

  private Vectors(float[] values, int dim) {
    this.values = values;
    this.dim = dim;
  }

  /**
   * Copies rows, one per token. Throws IllegalArgumentException if there is no row, or if the rows are empty or differ
   * in length.
   */
  public static Vectors of(float[][] rows) {
    if (rows.length == 0) throw new IllegalArgumentException("there are no vectors; must have at least one row");
    int dim = rows[0].length;
    float[] values = new float[Math.multiplyExact(rows.length, dim)];
    for (int i = 0; i < rows.length; i++) {
      if (rows[i].length != dim || dim == 0) {
        String accepted = dim == 0 ? "at least one" : Integer.toString(dim);
        throw new IllegalArgumentException(
            "row " + i + " has " + rows[i].length + " values; every row must have " + accepted);
      }
      System.arraycopy(rows[i], 0, values, i * dim, dim);
    }
    return new Vectors(values, dim);
  }

  /**
   * Copies rows of {@code dim} values that follow each other in one array. Throws IllegalArgumentException if the
   * array is empty or has no whole number of rows.
   */
  public static Vectors of(float[] values, int dim) {
    if (dim < 1 || values.length == 0 || values.length % dim != 0) {
      throw new IllegalArgumentException(
          "dim is " + dim + " with " + values.length + " values; must be at least 1 and divide their number");
    }
    return new Vectors(values.clone(), dim);
  }

  /** Returns the number of rows. */
  public int numTokens() {
    return values.length / dim;
  }

  /** Returns the number of values in a row. */
  public int dim() {
    return dim;
  }

  /** Returns a copy of the row of a token, counted from 0. */
  public float[] row(int token) {
    if (token < 0 || token >= numTokens()) {
      throw new IndexOutOfBoundsException("token is " + token + "; must be from 0 to " + (numTokens() - 1));
    }
    return Arrays.copyOfRange(values, token * dim, (token + 1) * dim);
  }

  /** Returns a copy of all rows. */
  public float[][] toArray() {
    float[][] rows = new float[numTokens()][];
    Arrays.setAll(rows, this::row);
    return rows;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Vectors that && dim == that.dim && Arrays.equals(values, that.values);
  }

  @Override
  public int hashCode() {
    return 31 * Arrays.hashCode(values) + dim;
  }

  @Override
  public String toString() {
    return "Vectors[" + numTokens() + " x " + dim + "]";
  }

  /** Returns the matrix of a request: its values as base64, which is exact and shorter than decimal numbers. */
  JsonNode toJson() {
    ByteBuffer bytes = ByteBuffer.allocate(Math.multiplyExact(values.length, Float.BYTES));
    bytes.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().put(values);
    ObjectNode matrix = Json.object().put("dtype", "f32");
    matrix.putArray("shape").add(numTokens()).add(dim);
    return matrix.put("data", bytes.array());
  }

  /** Reads a matrix of an answer. {@code scale} multiplies the values of an I8 matrix. */
  static Vectors fromJson(JsonNode matrix, float scale) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(matrix.path("data").binaryValue()).order(ByteOrder.LITTLE_ENDIAN);
    int dim = matrix.path("shape").path(1).asInt();
    String dtype = matrix.path("dtype").asText().toLowerCase(Locale.ROOT);
    float[] values = switch (dtype) {
      case "f32" -> readValues(bytes, 4, ByteBuffer::getFloat);
      case "f16" -> readValues(bytes, 2, from -> halfToFloat(from.getShort()));
      case "bf16" -> readValues(bytes, 2, from -> Float.intBitsToFloat(from.getShort() << 16));
      case "i8" -> readValues(bytes, 1, from -> from.get() * scale);
      default -> throw new IOException("tokens.dtype is " + dtype + "; this client knows f32, f16, bf16 and i8");
    };
    if (dim < 1 || values.length != dim * matrix.path("shape").path(0).asLong()) {
      throw new IOException("tokens.shape is " + matrix.path("shape") + " with " + values.length + " values");
    }
    return new Vectors(values, dim);
  }

  private interface ValueReader {
    float read(ByteBuffer from);
  }

  private static float[] readValues(ByteBuffer bytes, int width, ValueReader reader) {
    float[] values = new float[bytes.remaining() / width];
    for (int i = 0; i < values.length; i++) values[i] = reader.read(bytes);
    return values;
  }

  private static float halfToFloat(short half) {
    float sign = half < 0 ? -1f : 1f;
    int exponent = half >> 10 & 0x1f;
    int fraction = half & 0x3ff;
    if (exponent == 0) return sign * fraction * 0x1p-24f;
    if (exponent == 0x1f) return fraction != 0 ? Float.NaN : sign * Float.POSITIVE_INFINITY;
    return sign * Math.scalb(1024 + fraction, exponent - 25);
  }
}
