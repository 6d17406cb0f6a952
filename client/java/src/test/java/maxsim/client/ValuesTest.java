package maxsim.client;

import static maxsim.client.TestServer.ok;
import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import maxsim.client.MaxsimException.Code;
import org.junit.Test;

/** Checks that numbers, ids and vectors keep their bits. */
public class ValuesTest {
  @Test
  public void scoresKeepTheirBits() {
    Random random = new Random(7);
    List<Float> scores = new ArrayList<>();
    Collections.addAll(scores, 0f, -0f, Float.MIN_VALUE, Float.MIN_NORMAL, Float.MAX_VALUE, 0.1f, 16777217f);
    while (scores.size() < 5000) {
      float score = Float.intBitsToFloat(random.nextInt());
      if (Float.isFinite(score)) scores.add(score);
    }
    List<String> results = new ArrayList<>();
    for (float score : scores) {
      // Writes one half of the scores with nine digits, the other with the fewest digits that mean only this float.
      boolean isLong = results.size() % 2 == 0;
      String text = isLong ? String.format(Locale.ROOT, "%.8e", score) : Float.toString(score);
      results.add("{'index':0,'relevance_score':" + text + "}");
    }
    try (TestServer server = new TestServer(ok("{'results':" + results + "}"))) {
      List<RankedDocument> documents = server.client().search("demo", "why?").documents();
      List<Integer> bits = documents.stream().map(one -> Float.floatToIntBits(one.score())).toList();
      assertEquals(scores.stream().map(Float::floatToIntBits).toList(), bits);
    }
  }

  @Test
  public void integersOf64BitsAreExact() {
    String missing = "9007199254740993,1000000000000000000,9223372036854775807,-9223372036854775808,'7'";
    String document = "{'id':-1,'num_tokens':1,'version':18446744073709551615,'sequence':9223372036854775807}";
    try (TestServer server = new TestServer(ok("{'documents':[" + document + "],'missing':[" + missing + "]}"))) {
      StoredDocuments found = server.client().get("n", List.of(Id.of(Long.MIN_VALUE), Id.of(Long.MAX_VALUE)));
      List<Id> expected =
          List.of(
              Id.of(9007199254740993L), Id.of(1000000000000000000L), Id.of(Long.MAX_VALUE), Id.of(Long.MIN_VALUE),
              Id.of("7"));
      assertEquals(expected, found.missing());
      assertEquals("18446744073709551615", Long.toUnsignedString(found.documents().get(0).version()));
      assertEquals(Long.MAX_VALUE, found.documents().get(0).sequence());
      assertEquals("{\"ids\":[-9223372036854775808,9223372036854775807]}", server.requests.get(0).body());
    }
  }

  @Test
  public void integersThatDoNotFitAreRefused() {
    for (String id : List.of("18446744073709551616", "-9223372036854775809", "1.5", "true")) {
      try (TestServer server = new TestServer(ok("{'documents':[],'missing':[" + id + "]}"))) {
        MaxsimException error =
            assertThrows(MaxsimException.class, () -> server.client().get("n", List.of(Id.of(1))));
        assertEquals(Code.INTERNAL, error.code());
      }
    }
  }

  @Test
  public void theLargestVersionIsSent() {
    try (TestServer server = new TestServer(ok("{'results':[],'sequence':1}"))) {
      NewDocument document = NewDocument.of(Id.of(1), "words");
      NewDocument unsigned = new NewDocument(Id.of(1), null, "words", null, -1);
      server.client().upsert("n", List.of(document.withVersion(Long.MAX_VALUE), unsigned));
      JsonNode documents = server.requests.get(0).json().path("documents");
      assertEquals("9223372036854775807", documents.path(0).path("version").asText());
      assertEquals("18446744073709551615", documents.path(1).path("version").asText());
    }
  }

  @Test
  public void vectorsOfBothFormsAreSentAsTheSameMatrix() {
    float[][] rows = {{1, 0.1f}, {Float.MIN_VALUE, -2}};
    Vectors vectors = Vectors.of(new float[] {1, 0.1f, Float.MIN_VALUE, -2}, 2);
    assertEquals(Vectors.of(rows), vectors);
    assertEquals(Vectors.of(rows).hashCode(), vectors.hashCode());
    assertEquals(2, vectors.numTokens());
    assertArrayEquals(rows[1], vectors.row(1), 0);
    assertThrows(IndexOutOfBoundsException.class, () -> vectors.row(2));
    ByteBuffer bytes = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
    bytes.putFloat(1).putFloat(0.1f).putFloat(Float.MIN_VALUE).putFloat(-2);
    String data = Base64.getEncoder().encodeToString(bytes.array());
    assertEquals("{\"dtype\":\"f32\",\"shape\":[2,2],\"data\":\"" + data + "\"}", vectors.toJson().toString());
  }

  @Test
  public void laterChangesOfAnArrayDoNotChangeVectors() {
    float[] values = {1, 2};
    float[][] rows = {{1, 2}};
    Vectors flat = Vectors.of(values, 2);
    Vectors made = Vectors.of(rows);
    values[0] = rows[0][0] = 9;
    made.row(0)[1] = 9;
    made.toArray()[0][1] = 9;
    assertArrayEquals(new float[] {1, 2}, flat.row(0), 0);
    assertArrayEquals(new float[] {1, 2}, made.row(0), 0);
  }

  private static float[] stored(String dtype, byte[] bytes, int tokens, int dim, String more) {
    String data = Base64.getEncoder().encodeToString(bytes);
    String tokensJson = "{'dtype':'" + dtype + "','shape':[" + tokens + "," + dim + "],'data':'" + data + "'}";
    String body = "{'documents':[{'id':1,'num_tokens':1,'tokens':" + tokensJson + more + "}]}";
    try (TestServer server = new TestServer(ok(body))) {
      GetOptions options = GetOptions.DEFAULT.withReturnTokens(true);
      Vectors vectors = server.client().get("n", List.of(Id.of(1)), options).documents().get(0).tokens();
      assertEquals(true, server.requests.get(0).json().path("return_tokens").booleanValue());
      assertEquals(tokens, vectors.numTokens());
      return vectors.row(0);
    }
  }

  private static byte[] shorts(int... values) {
    ByteBuffer bytes = ByteBuffer.allocate(2 * values.length).order(ByteOrder.LITTLE_ENDIAN);
    for (int one : values) bytes.putShort((short) one);
    return bytes.array();
  }

  @Test
  public void storedVectorsOfEveryTypeAreRead() {
    float[] values = {1.5f, -2, 0, 0.25f};
    ByteBuffer floats = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
    for (float one : values) floats.putFloat(one);
    assertArrayEquals(values, stored("f32", floats.array(), 1, 4, ""), 0);
    assertArrayEquals(values, stored("F32", floats.array(), 1, 4, ""), 0);
    assertArrayEquals(values, stored("f16", shorts(0x3e00, 0xc000, 0, 0x3400), 1, 4, ""), 0);
    assertArrayEquals(values, stored("bf16", shorts(0x3fc0, 0xc000, 0, 0x3e80), 1, 4, ""), 0);
    assertArrayEquals(values, stored("i8", new byte[] {6, -8, 0, 1}, 1, 4, ",'scale':0.25"), 0);
  }

  @Test
  public void specialValuesOfF16AreRead() {
    float[] expected = {
      0x1p-24f, 1023 * 0x1p-24f, 0x1p-14f, 65504, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.NaN, -0f
    };
    byte[] halves = shorts(0x0001, 0x03ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x8000);
    float[] found = stored("f16", halves, 1, 8, "");
    for (int i = 0; i < expected.length; i++) {
      assertEquals(Float.floatToIntBits(expected[i]), Float.floatToIntBits(found[i]));
    }
  }

  @Test
  public void matricesThatCannotBeReadAreRefused() {
    byte[] bytes = new byte[8];
    for (String dtype : List.of("f64", "")) {
      assertEquals(Code.INTERNAL, assertThrows(MaxsimException.class, () -> stored(dtype, bytes, 1, 1, "")).code());
    }
    for (int dim : List.of(0, 1, 3)) {
      assertEquals(Code.INTERNAL, assertThrows(MaxsimException.class, () -> stored("f32", bytes, 1, dim, "")).code());
    }
  }

  @Test
  public void payloadsMayBeMapsOrRecords() {
    record Title(String title, long pages) {}
    try (TestServer server = new TestServer(ok("{'results':[],'sequence':1}"))) {
      NewDocument document = NewDocument.of(Id.of("a"), "words");
      List<NewDocument> documents =
          List.of(
              document.withPayload(new Title("\u00e9 \u2028 \ud83d\ude00", 1L << 62)),
              document.withPayload(Map.of("x", 1)));
      server.client().upsert("n", documents);
      JsonNode sent = server.requests.get(0).json().path("documents");
      assertEquals("\u00e9 \u2028 \ud83d\ude00", sent.path(0).path("payload").path("title").textValue());
      assertEquals("4611686018427387904", sent.path(0).path("payload").path("pages").asText());
      assertEquals("{\"x\":1}", sent.path(1).path("payload").toString());
      NewDocument wrong = document.withPayload(new Object());
      String message =
          assertThrows(IllegalArgumentException.class, () -> server.client().upsert("n", List.of(wrong))).getMessage();
      assertTrue(message, message.startsWith("documents[0].payload cannot be written as JSON"));
    }
  }
}
