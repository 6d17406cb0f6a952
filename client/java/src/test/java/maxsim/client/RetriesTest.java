package maxsim.client;

import static maxsim.client.TestServer.RANKING;
import static maxsim.client.TestServer.SILENCE;
import static maxsim.client.TestServer.refusal;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import maxsim.client.MaxsimException.Code;
import maxsim.client.MaxsimException.Details;
import org.junit.Test;

/** Checks when a call is tried again, and when it ends. */
public class RetriesTest {
  private static final Duration LONG = Duration.ofHours(1);

  private static Ranking rerank(MaxsimClient client) {
    return client.rerank("demo", Query.of("why?"), Candidates.ids("a"), RankOptions.DEFAULT);
  }

  private static MaxsimException error(Code code, Duration retryAfter) {
    Details details = new Details(null, null, null, null, null, retryAfter, null, null);
    return new MaxsimException(code, "refused", details, null);
  }

  private static Optional<Duration> delay(RetryPolicy policy, Code code, Duration retryAfter, int attempt) {
    return policy.nextDelay(error(code, retryAfter), attempt, LONG, () -> 0.5);
  }

  @Test
  public void waitsGrowByTheMultiplierUpToTheMaximum() {
    RetryPolicy policy = new RetryPolicy(9, Duration.ofMillis(20), Duration.ofMillis(100), 3, 0);
    List<Long> waits =
        List.of(1, 2, 3, 4).stream().map(i -> delay(policy, Code.UNAVAILABLE, null, i).get().toMillis()).toList();
    assertEquals(List.of(20L, 60L, 100L, 100L), waits);
    RetryPolicy endless = policy.withMaxAttempts(Integer.MAX_VALUE);
    assertEquals(Duration.ofMillis(100), delay(endless, Code.UNAVAILABLE, null, 1_000_000).get());
  }

  @Test
  public void jitterChangesAWaitByItsFraction() {
    MaxsimException error = error(Code.UNAVAILABLE, null);
    assertEquals(Duration.ofMillis(40), RetryPolicy.DEFAULT.nextDelay(error, 1, LONG, () -> 0.0).get());
    assertEquals(Duration.ofMillis(50), RetryPolicy.DEFAULT.nextDelay(error, 1, LONG, () -> 0.5).get());
    assertEquals(Duration.ofMillis(55), RetryPolicy.DEFAULT.nextDelay(error, 1, LONG, () -> 0.75).get());
  }

  @Test
  public void aRetryWaitsForRetryAfterIfThatIsLonger() {
    Duration asked = Duration.ofSeconds(7);
    assertEquals(asked, delay(RetryPolicy.DEFAULT, Code.RESOURCE_EXHAUSTED, asked, 1).get());
    assertEquals(Duration.ofMillis(100), delay(RetryPolicy.DEFAULT, Code.UNAVAILABLE, Duration.ZERO, 2).get());
  }

  @Test
  public void onlyUnavailableAndBusyServersAreAskedAgain() {
    for (Code code : Code.values()) {
      boolean withHint = code == Code.UNAVAILABLE || code == Code.RESOURCE_EXHAUSTED;
      assertEquals(code.name(), withHint, delay(RetryPolicy.DEFAULT, code, Duration.ZERO, 1).isPresent());
      assertEquals(code.name(), code == Code.UNAVAILABLE, delay(RetryPolicy.DEFAULT, code, null, 1).isPresent());
    }
  }

  @Test
  public void theDefaultMakesSevenAttempts() {
    assertTrue(delay(RetryPolicy.DEFAULT, Code.UNAVAILABLE, null, 6).isPresent());
    assertFalse(delay(RetryPolicy.DEFAULT, Code.UNAVAILABLE, null, 7).isPresent());
  }

  @Test
  public void noAttemptIsMadeThatCouldNotBeginWithinTheTimeout() {
    MaxsimException busy = error(Code.UNAVAILABLE, Duration.ofSeconds(3));
    assertFalse(RetryPolicy.DEFAULT.nextDelay(busy, 1, Duration.ofMillis(3000), () -> 0.5).isPresent());
    assertTrue(RetryPolicy.DEFAULT.nextDelay(busy, 1, Duration.ofMillis(3001), () -> 0.5).isPresent());
    try (TestServer server = new TestServer(refusal(503, "UNAVAILABLE", "3600"), RANKING)) {
      MaxsimException error = assertThrows(MaxsimException.class, () -> rerank(server.client()));
      assertEquals(Optional.of(Duration.ofHours(1)), error.retryAfter());
      assertEquals(1, server.requests.size());
    }
  }

  @Test
  public void unavailableIsRetriedUntilTheServerAnswers() {
    TestServer.Answer refused = refusal(503, "UNAVAILABLE", null);
    try (TestServer server = new TestServer(refused, refused, RANKING)) {
      assertEquals(Id.of("a"), rerank(server.client()).documents().get(0).id());
      assertEquals(3, server.requests.size());
      assertEquals(server.requests.get(0).body(), server.requests.get(2).body());
    }
  }

  @Test
  public void maxAttemptsCountsTheFirstAttempt() {
    for (int attempts = 1; attempts <= 3; attempts++) {
      RetryPolicy policy = RetryPolicy.DEFAULT.withMaxAttempts(attempts);
      try (TestServer server = new TestServer(refusal(503, "UNAVAILABLE", null))) {
        MaxsimClient client = MaxsimClient.builder(server.url()).retry(policy).build();
        assertEquals(Code.UNAVAILABLE, assertThrows(MaxsimException.class, () -> rerank(client)).code());
        assertEquals(attempts, server.requests.size());
      }
    }
  }

  @Test
  public void aConnectionThatBreaksWithinTheAnswerIsRetried() throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      CompletableFuture<Void> served = CompletableFuture.runAsync(() -> breakOnceThenAnswer(listener));
      MaxsimClient.create("http://127.0.0.1:" + listener.getLocalPort()).info();
      served.get();
    }
  }

  private static void breakOnceThenAnswer(ServerSocket listener) {
    try {
      for (String body : List.of("{", "{\"collections\":[]}")) {
        try (Socket socket = listener.accept()) {
          readHeader(socket);
          String head = "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n";
          socket.getOutputStream().write((head + body).getBytes(StandardCharsets.UTF_8));
        }
      }
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  /** Reads the header of a request, which may come in several parts. */
  private static void readHeader(Socket socket) throws IOException {
    StringBuilder header = new StringBuilder();
    while (header.indexOf("\r\n\r\n") < 0) {
      int next = socket.getInputStream().read();
      if (next < 0) throw new IOException("the client has closed the connection");
      header.append((char) next);
    }
  }

  /** Returns when the client has closed the connection, and never if it does not. */
  private static void awaitEnd(Socket socket) {
    try {
      socket.getInputStream().readAllBytes();
    } catch (IOException e) {
      // The client has reset the connection.
    }
  }

  @Test
  public void aServerThatDoesNotAnswerIsDeadlineExceeded() {
    try (TestServer server = new TestServer(SILENCE)) {
      MaxsimClient client = server.client().withTimeout(Duration.ofMillis(150));
      MaxsimException error = assertThrows(MaxsimException.class, () -> rerank(client));
      assertEquals(Code.DEADLINE_EXCEEDED, error.code());
      assertTrue(error.getMessage(), error.getMessage().contains("within 150 ms"));
      assertFalse(error.status().isPresent());
    }
  }

  @Test
  public void theTimeoutAlsoBoundsTheReadingOfAnAnswerAndClosesTheConnection() throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      CountDownLatch accepted = new CountDownLatch(1);
      CompletableFuture<Void> ended = CompletableFuture.runAsync(() -> beginAnswerAndAwaitEnd(listener, accepted));
      MaxsimClient client = MaxsimClient.create("http://127.0.0.1:" + listener.getLocalPort());
      // A slow machine may need more than the first timeout to connect.
      for (int ms = 200; accepted.getCount() > 0; ms *= 2) {
        MaxsimClient hasty = client.withTimeout(Duration.ofMillis(ms));
        assertEquals(Code.DEADLINE_EXCEEDED, assertThrows(MaxsimException.class, hasty::info).code());
      }
      ended.get();
    }
  }

  private static void beginAnswerAndAwaitEnd(ServerSocket listener, CountDownLatch accepted) {
    try (Socket socket = listener.accept()) {
      accepted.countDown();
      readHeader(socket);
      String begin = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{";
      socket.getOutputStream().write(begin.getBytes(StandardCharsets.UTF_8));
      awaitEnd(socket);
    } catch (IOException e) {
      // The client has closed the connection before the answer began.
    }
  }

  /** Reads a request, counts {@code arrived} down, and returns when the client has closed the connection. */
  private static void readRequestAndAwaitEnd(ServerSocket listener, CountDownLatch arrived) {
    try (Socket socket = listener.accept()) {
      readHeader(socket);
      arrived.countDown();
      awaitEnd(socket);
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  /** Returns a client whose timeout never ends a request within the time limit of the tests. */
  private static MaxsimClient patientClient(ServerSocket listener) {
    return MaxsimClient.create("http://127.0.0.1:" + listener.getLocalPort()).withTimeout(LONG);
  }

  @Test
  public void cancellingAFutureEndsItsRequest() throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      CountDownLatch arrived = new CountDownLatch(1);
      CompletableFuture<Void> ended = CompletableFuture.runAsync(() -> readRequestAndAwaitEnd(listener, arrived));
      CompletableFuture<Ranking> call =
          patientClient(listener).rerankAsync("demo", Query.of("why?"), Candidates.all(), RankOptions.DEFAULT);
      arrived.await();
      call.cancel(true);
      assertThrows(CancellationException.class, call::join);
      ended.get();
    }
  }

  @Test
  public void interruptingAThreadEndsItsRequestAndLeavesItInterrupted() throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      CountDownLatch arrived = new CountDownLatch(1);
      CompletableFuture<Void> ended = CompletableFuture.runAsync(() -> readRequestAndAwaitEnd(listener, arrived));
      CompletableFuture<String> seen = new CompletableFuture<>();
      Thread thread =
          new Thread(
              () -> {
                try {
                  rerank(patientClient(listener));
                } catch (MaxsimException e) {
                  seen.complete(e.code() + " " + Thread.currentThread().isInterrupted());
                }
              });
      thread.start();
      arrived.await();
      thread.interrupt();
      assertEquals("CANCELLED true", seen.get());
      ended.get();
    }
  }

  @Test
  public void closingAClientEndsItsCallsAndRefusesLaterOnes() throws Exception {
    CountDownLatch arrived = new CountDownLatch(1);
    try (TestServer server =
        new TestServer(
            request -> {
              arrived.countDown();
              return SILENCE;
            })) {
      MaxsimClient client = server.client();
      CompletableFuture<Ranking> call =
          client.rerankAsync("demo", Query.of("why?"), Candidates.all(), RankOptions.DEFAULT);
      assertTrue(arrived.await(10, TimeUnit.MINUTES));
      client.close();
      client.close();
      Throwable failure = assertThrows(ExecutionException.class, call::get).getCause();
      assertEquals(Code.CANCELLED, ((MaxsimException) failure).code());
      assertEquals(Code.CANCELLED, assertThrows(MaxsimException.class, client::info).code());
    }
  }
}
