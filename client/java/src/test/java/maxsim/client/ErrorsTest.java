package maxsim.client;

import static maxsim.client.TestServer.RANKING;
import static maxsim.client.TestServer.refusal;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicInteger;
import maxsim.client.MaxsimException.Code;
import maxsim.client.TestServer.Answer;
import org.junit.Test;
import org.junit.function.ThrowingRunnable;

/** Checks what callers learn of a failure. */
public class ErrorsTest {
  private static MaxsimException failure(ThrowingRunnable call) {
    return assertThrows(MaxsimException.class, call);
  }

  @Test
  public void anErrorHasEveryDetailOfTheAnswer() {
    String body =
        "{'error':{'code':'RESOURCE_EXHAUSTED','message':'too many','field':'top_n','reason':'LIMIT_EXCEEDED',"
            + "'limit':1024,'limit_key':'limits.max_top_k','num_deleted':3}}";
    try (TestServer server = new TestServer(new Answer(429, body.replace('\'', '"'), "2"))) {
      MaxsimClient client = MaxsimClient.builder(server.url()).retry(RetryPolicy.NEVER).build();
      MaxsimException error = failure(client::info);
      assertEquals(Code.RESOURCE_EXHAUSTED, error.code());
      assertEquals("too many", error.getMessage());
      assertEquals(OptionalInt.of(429), error.status());
      assertEquals(Optional.of("top_n"), error.field());
      assertEquals(Optional.of("LIMIT_EXCEEDED"), error.reason());
      assertEquals(OptionalLong.of(1024), error.limit());
      assertEquals(Optional.of("limits.max_top_k"), error.limitKey());
      assertEquals(OptionalLong.of(3), error.numDeleted());
      assertEquals(Optional.of(Duration.ofSeconds(2)), error.retryAfter());
    }
  }

  @Test
  public void detailsThatDoNotApplyAreAbsent() {
    try (TestServer server = new TestServer(refusal(404, "NOT_FOUND", null))) {
      MaxsimException error = failure(server.client()::info);
      assertFalse(error.field().isPresent() || error.reason().isPresent() || error.limitKey().isPresent());
      assertFalse(error.limit().isPresent() || error.numDeleted().isPresent() || error.queryIndex().isPresent());
      assertFalse(error.retryAfter().isPresent());
    }
  }

  @Test
  public void theStackTraceIsThatOfTheCaller() {
    try (TestServer server = new TestServer(refusal(404, "NOT_FOUND", null))) {
      MaxsimException error = failure(server.client()::info);
      assertTrue(List.of(error.getStackTrace()).toString().contains("theStackTraceIsThatOfTheCaller"));
    }
  }

  @Test
  public void statusesOfAProxyHaveTheirCodes() {
    Map<Integer, Code> codes =
        Map.of(
            401, Code.UNAUTHENTICATED,
            403, Code.PERMISSION_DENIED,
            404, Code.NOT_FOUND,
            413, Code.INVALID_ARGUMENT,
            502, Code.UNAVAILABLE,
            504, Code.DEADLINE_EXCEEDED,
            418, Code.UNKNOWN);
    codes.forEach(
        (status, code) -> {
          for (String body : List.of("<html>sorry</html>", "", "null", "{\"error\":\"text\"}", "[1]")) {
            try (TestServer server = new TestServer(new Answer(status, body, null))) {
              MaxsimClient client = MaxsimClient.builder(server.url()).retry(RetryPolicy.NEVER).build();
              MaxsimException error = failure(client::info);
              assertEquals(code, error.code());
              assertEquals(OptionalInt.of(status), error.status());
            }
          }
        });
  }

  @Test
  public void answersThatCannotBeReadAreInternalAndFinal() {
    for (String body : List.of("<html>hello</html>", "null", "[1]", "", "{\"collections\":7}", "{} <html>")) {
      try (TestServer server = new TestServer(new Answer(200, body, null))) {
        MaxsimException error = failure(server.client()::info);
        assertEquals(body, Code.INTERNAL, error.code());
        assertTrue(error.getMessage().contains("is this the HTTP port of maxsimd?"));
        assertEquals(1, server.requests.size());
      }
    }
  }

  @Test
  public void aCodeThatThisClientDoesNotKnowIsUnknown() {
    try (TestServer server = new TestServer(refusal(400, "NEW_CODE", null))) {
      assertEquals(Code.UNKNOWN, failure(server.client()::info).code());
    }
  }

  @Test
  public void retryAfterIsANumberOrADate() {
    assertEquals(Duration.ofMillis(1500), MaxsimException.parseRetryAfter(" 1.5 "));
    assertEquals(null, MaxsimException.parseRetryAfter("soon"));
    assertEquals(null, MaxsimException.parseRetryAfter("-1"));
    String date = DateTimeFormatter.RFC_1123_DATE_TIME.format(ZonedDateTime.now(ZoneOffset.UTC).plusDays(100));
    Duration wait = MaxsimException.parseRetryAfter(date);
    assertTrue(wait.toString(), wait.toDays() >= 98 && wait.toDays() <= 100);
    assertEquals(Duration.ZERO, MaxsimException.parseRetryAfter("Thu, 01 Jan 2004 00:00:00 GMT"));
  }

  @Test
  public void aServerThatCannotBeReachedIsUnavailableAndNamed() throws IOException {
    MaxsimClient client = MaxsimClient.builder("http://127.0.0.1:1").retry(RetryPolicy.NEVER).build();
    MaxsimException error = failure(client::health);
    assertEquals(Code.UNAVAILABLE, error.code());
    assertTrue(error.getMessage(), error.getMessage().startsWith("cannot reach maxsimd at http://127.0.0.1:1: "));
    assertNotNull(error.getCause());
  }

  @Test
  public void redirectsAreNotFollowedSoThatNoTokenGoesElsewhere() {
    try (TestServer other = new TestServer(RANKING);
        TestServer server = new TestServer(new Answer(307, other.url() + "/v1/collections", null))) {
      MaxsimClient client = MaxsimClient.builder(server.url()).token("secret").allowPlaintextToken().build();
      assertEquals(Code.UNKNOWN, failure(client::info).code());
      assertEquals(0, other.requests.size());
    }
  }

  @Test
  public void aTokenMayComeFromAFunctionThatIsCalledBeforeEachAttempt() {
    try (TestServer server = new TestServer(refusal(503, "UNAVAILABLE", null), RANKING)) {
      AtomicInteger calls = new AtomicInteger();
      MaxsimClient client =
          MaxsimClient.builder(server.url()).allowPlaintextToken().token(() -> "t" + calls.incrementAndGet()).build();
      client.search("demo", "why?");
      List<String> sent = server.requests.stream().map(one -> one.headers().getFirst("authorization")).toList();
      assertEquals(List.of("Bearer t1", "Bearer t2"), sent);
    }
  }

  @Test
  public void aTokenThatCannotBeSentIsRefusedWithoutShowingIt() {
    for (String token : List.of("", "sec ret", "secret\n", "s\u00e9cret")) {
      MaxsimClientBuilder builder = MaxsimClient.builder("https://127.0.0.1:1");
      for (ThrowingRunnable call :
          List.<ThrowingRunnable>of(
              () -> builder.token(token), () -> builder.token(() -> token).build().info())) {
        String message = assertThrows(IllegalArgumentException.class, call).getMessage();
        assertTrue(message, message.startsWith("token is empty") && !message.contains("cret"));
      }
    }
  }

  @Test
  public void aTokenIsNotSentInTheClearUnlessThatIsAllowed() {
    MaxsimClientBuilder builder = MaxsimClient.builder("http://127.0.0.1:1").token("secret");
    String message = assertThrows(IllegalArgumentException.class, builder::build).getMessage();
    assertTrue(message, message.startsWith("token would be sent in the clear") && !message.contains("secret"));
    builder.allowPlaintextToken().build();
  }

  @Test
  public void aHeaderCannotBypassTheCheckOfTokensAndErrorsDoNotShowItsValue() {
    MaxsimClientBuilder builder = MaxsimClient.builder("http://127.0.0.1:1");
    for (ThrowingRunnable call :
        List.<ThrowingRunnable>of(
            () -> builder.header("Authorization", "Bearer secret"),
            () -> builder.header("x-key", "secret\n"),
            () -> MaxsimClient.builder("http://me:secret@127.0.0.1:1"))) {
      IllegalArgumentException error = assertThrows(IllegalArgumentException.class, call);
      for (Throwable one = error; one != null; one = one.getCause()) {
        assertFalse(one.toString(), one.toString().contains("secret"));
      }
    }
  }

  @Test
  public void wrongOptionsAreRefusedByName() throws IOException {
    Path empty = Files.createTempFile("no-certificate", ".pem");
    Files.writeString(empty, "no certificate\n");
    MaxsimClientBuilder plain = MaxsimClient.builder("http://localhost:7071");
    MaxsimClientBuilder secure = MaxsimClient.builder("https://localhost:7071");
    Duration ms = Duration.ofMillis(1);
    Map<String, ThrowingRunnable> wrong =
        Map.ofEntries(
            Map.entry("url is localhost:7071", () -> MaxsimClient.create("localhost:7071")),
            Map.entry("url is ftp://a", () -> MaxsimClient.create("ftp://a")),
            Map.entry("url is ;", () -> MaxsimClient.create("")),
            Map.entry("timeout is PT0S", () -> plain.timeout(Duration.ZERO)),
            Map.entry("timeout is PT-1S", () -> plain.timeout(Duration.ofSeconds(-1))),
            Map.entry("header x-a has a value with", () -> plain.header("x-a", "a\nb")),
            Map.entry("header host cannot be sent", () -> plain.header("host", "a")),
            Map.entry("header Authorization cannot be set", () -> plain.header("Authorization", "Bearer a")),
            Map.entry("url has a user name", () -> MaxsimClient.create("https://me:secret@localhost")),
            Map.entry("retry.maxAttempts is 0", () -> RetryPolicy.DEFAULT.withMaxAttempts(0)),
            Map.entry("retry.initialBackoff is PT0S", () -> RetryPolicy.DEFAULT.withBackoff(Duration.ZERO, ms)),
            Map.entry("retry.maxBackoff is PT0.001S", () -> RetryPolicy.DEFAULT.withBackoff(ms.plus(ms), ms)),
            Map.entry("retry.multiplier is 0.5", () -> new RetryPolicy(1, ms, ms, 0.5, 0)),
            Map.entry("retry.multiplier is NaN", () -> new RetryPolicy(1, ms, ms, Double.NaN, 0)),
            Map.entry("retry.jitter is 1.1", () -> RetryPolicy.DEFAULT.withJitter(1.1)),
            Map.entry("caFile is /nowhere", () -> secure.caFile(Path.of("/nowhere")).build()),
            Map.entry("caFile is " + empty, () -> MaxsimClient.builder("https://a").caFile(empty).build()),
            Map.entry("caFile is ca.pem, but", () -> plain.caFile(Path.of("ca.pem")).build()));
    wrong.forEach(
        (message, call) -> {
          String found = assertThrows(message, IllegalArgumentException.class, call).getMessage();
          assertTrue(found, found.startsWith(message));
        });
    Files.delete(empty);
  }

  @Test
  public void wrongArgumentsAreRefusedBeforeAnythingIsSent() {
    try (TestServer server = new TestServer(RANKING)) {
      MaxsimClient client = server.client();
      List<Query> queries = List.of(Query.of("a"), Query.of("b"));
      NewDocument document = NewDocument.of(Id.of("a"), "b");
      NewDocument wrongPayload = document.withPayload(Map.of("x", List.of(1, Double.NaN)));
      List<Candidates> three = List.of(Candidates.all(), Candidates.all(), Candidates.all());
      Map<String, ThrowingRunnable> wrong =
          Map.ofEntries(
              Map.entry("documents is empty", () -> client.upsert("a", List.of())),
              Map.entry("documents is empty; must have", () -> Candidates.documents(List.of())),
              Map.entry("maxBodyBytes is 0", () -> client.upsert("a", List.of(document), 0)),
              Map.entry("collection is \"\"", () -> client.upsert("", List.of(document))),
              Map.entry("ids is empty", () -> client.get("a", List.of())),
              Map.entry("ids is empty; must have", () -> client.delete("a", List.of())),
              Map.entry("queries is empty", () -> client.rerankMany("a", List.of(), three, RankOptions.DEFAULT)),
              Map.entry("candidates has 3", () -> client.rerankMany("a", queries, three, RankOptions.DEFAULT)),
              Map.entry("the document a has neither", () -> new NewDocument(Id.of("a"), null, null, null, 0)),
              Map.entry("version is -1", () -> document.withVersion(-1)),
              Map.entry("minSequence is -1", () -> client.count("a", null, -1)),
              Map.entry("minScore is NaN", () -> RankOptions.DEFAULT.withMinScore(Float.NaN)),
              Map.entry("weights[1] is Infinity", () -> Query.of("a").withWeights(1, Float.POSITIVE_INFINITY)),
              Map.entry("query: there are no vectors", () -> Query.of(new float[0][])),
              Map.entry("query: row 1 has 1 values", () -> Query.of(new float[][] {{1, 2}, {3}})),
              Map.entry("dim is 2 with 3 values", () -> Vectors.of(new float[3], 2)),
              Map.entry("documents[0].payload.x[1] is NaN", () -> client.upsert("a", List.of(wrongPayload))),
              Map.entry("the filter is the text x = 1", () -> Filter.of("x = 1").not()));
      wrong.forEach(
          (message, call) -> {
            String found = assertThrows(message, IllegalArgumentException.class, call).getMessage();
            assertTrue(found, found.startsWith(message));
          });
      assertEquals(0, server.requests.size());
    }
  }
}
