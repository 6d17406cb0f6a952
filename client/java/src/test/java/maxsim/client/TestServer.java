package maxsim.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Function;

/** A server that answers each request with the next of the given answers, and repeats the last one. */
final class TestServer implements AutoCloseable {
  /** A request of a client. */
  record Request(String method, String path, Headers headers, String body) {
    JsonNode json() {
      try {
        return Json.parse(body.getBytes(StandardCharsets.UTF_8));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  /** An answer. {@code retryAfter} is the header, or null. */
  record Answer(int status, String body, String retryAfter) {}

  static final Answer RANKING =
      new Answer(
          200,
          "{'results':[{'id':'a','index':0,'relevance_score':1.5}],'generation':1,'id':'request','model':'demo'}"
              .replace('\'', '"'),
          null);

  /** The request is never answered. */
  static final Answer SILENCE = new Answer(0, "", null);

  final List<Request> requests = new CopyOnWriteArrayList<>();
  private final HttpServer server;
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final CountDownLatch closed = new CountDownLatch(1);

  TestServer(Answer... answers) {
    this(null, answers);
  }

  /** Answers with a function, for requests that come in any order. */
  TestServer(Function<Request, Answer> answer) {
    this(answer, new Answer[0]);
  }

  private TestServer(Function<Request, Answer> function, Answer[] answers) {
    try {
      server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    server.setExecutor(threads);
    server.createContext("/", exchange -> handle(exchange, function, answers));
    server.start();
  }

  String url() {
    return "http://127.0.0.1:" + server.getAddress().getPort();
  }

  /** Returns a client that waits 1 ms before the first retry. */
  MaxsimClient client() {
    RetryPolicy fast = RetryPolicy.DEFAULT.withBackoff(Duration.ofMillis(1), Duration.ofMillis(2));
    return MaxsimClient.builder(url()).retry(fast).build();
  }

  static Answer ok(String json) {
    return new Answer(200, json.replace('\'', '"'), null);
  }

  static Answer refusal(int status, String code, String retryAfter) {
    return new Answer(
        status, "{\"error\":{\"code\":\"" + code + "\",\"message\":\"refused: " + code + "\"}}", retryAfter);
  }

  private void handle(HttpExchange exchange, Function<Request, Answer> function, Answer[] answers) throws IOException {
    String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
    String path = exchange.getRequestURI().getRawPath();
    Request request = new Request(exchange.getRequestMethod(), path, exchange.getRequestHeaders(), body);
    Answer answer;
    synchronized (this) {
      requests.add(request);
      answer = function == null ? answers[Math.min(requests.size(), answers.length) - 1] : null;
    }
    if (function != null) answer = function.apply(request);
    if (answer.status() == 0) {
      awaitClose();
      return;
    }
    if (answer.retryAfter() != null) exchange.getResponseHeaders().set("Retry-After", answer.retryAfter());
    if (answer.status() == 307) exchange.getResponseHeaders().set("Location", answer.body());
    byte[] bytes = answer.body().getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(answer.status(), bytes.length == 0 ? -1 : bytes.length);
    if (bytes.length > 0) exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  private void awaitClose() {
    try {
      closed.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void close() {
    closed.countDown();
    server.stop(0);
    threads.shutdownNow();
  }
}
