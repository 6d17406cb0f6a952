package maxsim.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.channels.UnresolvedAddressException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import maxsim.client.MaxsimException.Code;
import maxsim.client.MaxsimException.Details;

/** Makes the HTTP requests of a client: retries, timeout, cancelling, token. Thread-safe. */
final class Transport {
  /** Makes the result of a call from the body of its answer. */
  interface Reader<T> {
    T read(byte[] body) throws IOException;
  }

  private final String url;
  private final Supplier<String> token; // null if there is none
  private final Map<String, String> headers;
  private final RetryPolicy retry;
  private final Set<CompletableFuture<?>> inFlight = ConcurrentHashMap.newKeySet();
  private volatile HttpClient http; // null after close

  /** All arguments must have been checked. {@code url} has no slash at its end. */
  Transport(String url, Supplier<String> token, Map<String, String> headers, RetryPolicy retry, HttpClient http) {
    this.url = url;
    this.token = token;
    this.headers = headers;
    this.retry = retry;
    this.http = http;
  }

  /**
   * Makes a request, and repeats it as long as its error permits a retry. The future fails with MaxsimException, or
   * with IllegalArgumentException for a token that cannot be sent. Cancelling the future ends the request.
   *
   * @param body JSON, or null for a request without a body
   * @param timeout bounds all attempts and the waits between them
   * @param onFailure gets the error of each attempt that fails
   */
  <T> CompletableFuture<T> call(
      String method,
      String path,
      byte[] body,
      Duration timeout,
      Reader<T> reader,
      Consumer<MaxsimException> onFailure) {
    Call<T> call = new Call<>(method, path, body, timeout, answer -> readOk(path, answer, reader), onFailure);
    return start(call, retry);
  }

  /** Makes a request once. The future has the answer, whatever its status; it fails only if there is no answer. */
  CompletableFuture<HttpResponse<byte[]>> once(String method, String path, Duration timeout) {
    Call<HttpResponse<byte[]>> call = new Call<>(method, path, null, timeout, answer -> answer, error -> {});
    return start(call, RetryPolicy.NEVER);
  }

  /**
   * Cancels the calls in flight. Calls that begin later fail with CANCELLED. The JDK of Java 17 cannot close idle
   * connections at once; it closes them when nothing refers to its HttpClient any more.
   */
  void close() {
    http = null;
    for (CompletableFuture<?> one : inFlight) one.completeExceptionally(closed());
  }

  /** Waits for a call. If the thread is interrupted, cancels the call and leaves the thread interrupted. */
  static <T> T await(CompletableFuture<T> call) {
    try {
      return call.get();
    } catch (InterruptedException e) {
      call.cancel(true);
      Thread.currentThread().interrupt();
      throw new MaxsimException(Code.CANCELLED, "the thread was interrupted while it waited for the answer", e);
    } catch (ExecutionException e) {
      // The exception was made in another thread. A copy has the stack trace of the caller.
      if (e.getCause() instanceof MaxsimException failure) throw failure.with(failure.details());
      if (e.getCause() instanceof IllegalArgumentException wrong) {
        throw new IllegalArgumentException(wrong.getMessage(), wrong);
      }
      throw new MaxsimException(Code.INTERNAL, "the client failed: " + e.getCause(), e.getCause());
    }
  }

  private <T> CompletableFuture<T> start(Call<T> call, RetryPolicy policy) {
    inFlight.add(call.result);
    call.result.whenComplete((value, failure) -> inFlight.remove(call.result));
    call.attempt(1, policy);
    return call.result;
  }

  private <T> T readOk(String path, HttpResponse<byte[]> answer, Reader<T> reader) {
    int status = answer.statusCode();
    if (status < 200 || status > 299) {
      Optional<String> retryAfter = answer.headers().firstValue("retry-after");
      String text = new String(answer.body(), StandardCharsets.UTF_8);
      throw MaxsimException.ofAnswer(status, jsonOrNull(answer.body()), text, retryAfter);
    }
    try {
      return reader.read(answer.body());
    } catch (IOException e) {
      String message = "the answer of " + url + path + " cannot be read; is this the HTTP port of maxsimd?";
      Details details = new Details(status, null, null, null, null, null, null, null);
      throw new MaxsimException(Code.INTERNAL, message, details, e);
    }
  }

  private static JsonNode jsonOrNull(byte[] body) {
    try {
      return Json.parse(body);
    } catch (IOException e) {
      return null;
    }
  }

  private static MaxsimException closed() {
    return new MaxsimException(Code.CANCELLED, "the client is closed", null);
  }

  /** One call with all its attempts. */
  private final class Call<T> {
    private final CompletableFuture<T> result = new CompletableFuture<>();
    private final String method;
    private final String path;
    private final byte[] body;
    private final Duration timeout;
    private final long endsAt; // of System.nanoTime()
    private final AnswerReader<T> reader;
    private final Consumer<MaxsimException> onFailure;

    Call(
        String method,
        String path,
        byte[] body,
        Duration timeout,
        AnswerReader<T> reader,
        Consumer<MaxsimException> onFailure) {
      this.method = method;
      this.path = path;
      this.body = body;
      this.timeout = timeout;
      this.endsAt = System.nanoTime() + timeout.toNanos();
      this.reader = reader;
      this.onFailure = onFailure;
    }

    private long remainingNanos() {
      return endsAt - System.nanoTime();
    }

    /** Begins attempt {@code number}, counted from 1. */
    void attempt(int number, RetryPolicy policy) {
      if (result.isDone()) return; // cancelled during the wait
      try {
        send()
            .whenComplete(
                (answer, failure) -> {
                  if (failure instanceof TimeoutException) {
                    // Ends it on another thread: the JDK has one for all timeouts, and the caller's code may block.
                    CompletableFuture.runAsync(() -> end(answer, failure, number, policy));
                  } else {
                    end(answer, failure, number, policy);
                  }
                });
      } catch (RuntimeException e) {
        result.completeExceptionally(e);
      }
    }

    private void end(HttpResponse<byte[]> answer, Throwable failure, int number, RetryPolicy policy) {
      try {
        if (failure != null) throw errorOf(failure);
        result.complete(reader.read(answer));
      } catch (MaxsimException error) {
        try {
          onFailure.accept(error);
          Duration remaining = Duration.ofNanos(remainingNanos());
          Optional<Duration> delay =
              policy.nextDelay(error, number, remaining, ThreadLocalRandom.current()::nextDouble);
          if (delay.isEmpty()) {
            result.completeExceptionally(error);
          } else {
            CompletableFuture.delayedExecutor(delay.get().toNanos(), TimeUnit.NANOSECONDS)
                .execute(() -> attempt(number + 1, policy));
          }
        } catch (RuntimeException e) {
          result.completeExceptionally(e);
        }
      } catch (RuntimeException | Error e) {
        result.completeExceptionally(e);
      }
    }

    /**
     * Sends the request. The future fails at the call's timeout, and is cancelled if the call ends before the answer
     * comes. In both cases the request is cancelled too.
     */
    private CompletableFuture<HttpResponse<byte[]>> send() {
      HttpClient client = http;
      if (client == null) throw closed();
      CompletableFuture<HttpResponse<byte[]>> sent =
          client.sendAsync(request(), HttpResponse.BodyHandlers.ofByteArray());
      CompletableFuture<HttpResponse<byte[]>> bounded = new CompletableFuture<>();
      sent.whenComplete(
          (answer, failure) -> {
            if (failure == null) bounded.complete(answer);
            else bounded.completeExceptionally(failure);
          });
      bounded.orTimeout(Math.max(1, remainingNanos()), TimeUnit.NANOSECONDS);
      bounded.whenComplete((answer, failure) -> sent.cancel(true));
      result.whenComplete((value, failure) -> bounded.cancel(true));
      return bounded;
    }

    private HttpRequest request() {
      HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path));
      headers.forEach(request::setHeader);
      if (body == null) {
        request.method(method, HttpRequest.BodyPublishers.noBody());
      } else {
        request.setHeader("content-type", "application/json");
        request.method(method, HttpRequest.BodyPublishers.ofByteArray(body));
      }
      if (token != null) request.setHeader("authorization", "Bearer " + MaxsimClientBuilder.checkToken(token.get()));
      return request.build();
    }

    private MaxsimException errorOf(Throwable failure) {
      boolean isWrapped = failure instanceof CompletionException && failure.getCause() != null;
      Throwable cause = isWrapped ? failure.getCause() : failure;
      if (cause instanceof TimeoutException) {
        String message = "no answer from " + url + " within " + timeout.toMillis() + " ms, the timeout of the call";
        return new MaxsimException(Code.DEADLINE_EXCEEDED, message, cause);
      }
      if (cause instanceof CancellationException) {
        return new MaxsimException(Code.CANCELLED, "the call was cancelled", cause);
      }
      if (cause instanceof IOException) {
        return new MaxsimException(Code.UNAVAILABLE, "cannot reach maxsimd at " + url + ": " + describe(cause), cause);
      }
      return new MaxsimException(Code.INTERNAL, "the request to " + url + " failed: " + cause, cause);
    }
  }

  /** Makes the result of a call from its answer, or throws MaxsimException. */
  private interface AnswerReader<T> {
    T read(HttpResponse<byte[]> answer);
  }

  /** Returns the message of an exception. Those of failed connections have none. */
  private static String describe(Throwable failure) {
    for (Throwable one = failure; one != null; one = one.getCause()) {
      if (one instanceof UnresolvedAddressException) return "the name of its host is unknown";
    }
    String name = failure.getClass().getSimpleName();
    return failure.getMessage() == null ? "the connection failed (" + name + ")" : failure.getMessage();
  }
}
