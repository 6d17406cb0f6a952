package maxsim.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * A call failed: the server refused it, could not be reached or did not answer in time, or the call was cancelled.
 * Programs read the details; the message is for people, and its words may change.
 *
 * <p>A wrong argument that the client itself finds is an IllegalArgumentException instead, and nothing was sent.
 */
public final class MaxsimException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The status code of gRPC that an error has (docs/reference/errors.md). */
  public enum Code {
    /** The call was cancelled, or the client was closed. */
    CANCELLED,
    /** A status that this client does not know, for example from a proxy. */
    UNKNOWN,
    /** A field of the request is wrong: see {@link MaxsimException#field()}. */
    INVALID_ARGUMENT,
    /** There was no answer within the timeout. */
    DEADLINE_EXCEEDED,
    /** The collection or an id does not exist. */
    NOT_FOUND,
    /** The name or path is taken. */
    ALREADY_EXISTS,
    /** The token is not sufficient. */
    PERMISSION_DENIED,
    /** The server is busy, or the request is too large. */
    RESOURCE_EXHAUSTED,
    /** The call does not fit the server, the collection or its encoder. */
    FAILED_PRECONDITION,
    /** Another call has changed the collection's layout since the caller read it. */
    ABORTED,
    /** A value is out of its range. */
    OUT_OF_RANGE,
    /** The server does not offer the call. */
    UNIMPLEMENTED,
    /** An error of the server, or an answer that cannot be read. */
    INTERNAL,
    /** The server could not be reached, or cannot answer now. */
    UNAVAILABLE,
    /** A file of the collection is damaged. */
    DATA_LOSS,
    /** The token is missing or unknown. */
    UNAUTHENTICATED
  }

  // Codes for answers without a body of maxsimd, for example from a proxy.
  private static final Map<Integer, Code> CODES_OF_STATUS =
      Map.ofEntries(
          Map.entry(400, Code.INVALID_ARGUMENT),
          Map.entry(401, Code.UNAUTHENTICATED),
          Map.entry(403, Code.PERMISSION_DENIED),
          Map.entry(404, Code.NOT_FOUND),
          Map.entry(409, Code.ABORTED),
          Map.entry(413, Code.INVALID_ARGUMENT),
          Map.entry(429, Code.RESOURCE_EXHAUSTED),
          Map.entry(499, Code.CANCELLED),
          Map.entry(500, Code.INTERNAL),
          Map.entry(501, Code.UNIMPLEMENTED),
          Map.entry(502, Code.UNAVAILABLE),
          Map.entry(503, Code.UNAVAILABLE),
          Map.entry(504, Code.DEADLINE_EXCEEDED));
  private static final int MAX_TEXT = 200; // a message quotes at most 200 characters of a proxy's page

  /** The parts of an error besides its code and message. A member that does not apply is null. */
  record Details(
      Integer status,
      String field,
      String reason,
      Long limit,
      String limitKey,
      Duration retryAfter,
      Long numDeleted,
      Integer queryIndex)
      implements Serializable {
    static final Details NONE = new Details(null, null, null, null, null, null, null, null);

    Details withField(String field) {
      return new Details(status, field, reason, limit, limitKey, retryAfter, numDeleted, queryIndex);
    }

    Details withQueryIndex(int queryIndex) {
      return new Details(status, field, reason, limit, limitKey, retryAfter, numDeleted, queryIndex);
    }

    /** Returns the details of a delete that failed after it had deleted documents. */
    Details partlyDeleted(long numDeleted) {
      return new Details(status, field, "PARTLY_DELETED", null, null, retryAfter, numDeleted, queryIndex);
    }
  }

  private final Code code;
  private final Details details;

  MaxsimException(Code code, String message, Details details, Throwable cause) {
    super(message, cause);
    this.code = code;
    this.details = details;
  }

  MaxsimException(Code code, String message, Throwable cause) {
    this(code, message, Details.NONE, cause);
  }

  /** Returns the status code. */
  public Code code() {
    return code;
  }

  /** Returns the HTTP status; nothing if there was no answer. */
  public OptionalInt status() {
    return details.status() == null ? OptionalInt.empty() : OptionalInt.of(details.status());
  }

  /** Returns the path of the wrong field in the body of the HTTP request, such as {@code query.shape[1]}. */
  public Optional<String> field() {
    return Optional.ofNullable(details.field());
  }

  /**
   * Returns a word such as {@code LIMIT_EXCEEDED} (docs/reference/errors.md lists them). Later servers may send words
   * that are not in that list.
   */
  public Optional<String> reason() {
    return Optional.ofNullable(details.reason());
  }

  /** Returns the largest accepted value of the field. */
  public OptionalLong limit() {
    return details.limit() == null ? OptionalLong.empty() : OptionalLong.of(details.limit());
  }

  /** Returns the key of the server's configuration that sets the limit. */
  public Optional<String> limitKey() {
    return Optional.ofNullable(details.limitKey());
  }

  /** Returns how long the server asks the client to wait before it tries again. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(details.retryAfter());
  }

  /** Returns how many documents {@code deleteMatching} had deleted before it failed. */
  public OptionalLong numDeleted() {
    return details.numDeleted() == null ? OptionalLong.empty() : OptionalLong.of(details.numDeleted());
  }

  /** Returns, for {@code rerankMany}, the index of the query whose request failed. */
  public OptionalInt queryIndex() {
    return details.queryIndex() == null ? OptionalInt.empty() : OptionalInt.of(details.queryIndex());
  }

  Details details() {
    return details;
  }

  /** Returns the same error with other details and the stack trace of the calling thread. Its cause is this error. */
  MaxsimException with(Details details) {
    return new MaxsimException(code, getMessage(), details, this);
  }

  /**
   * Returns the error of an answer whose status is not 2xx. {@code body} is the answer's JSON, or null if it is not
   * JSON; {@code text} its text.
   */
  static MaxsimException ofAnswer(int status, JsonNode body, String text, Optional<String> retryAfter) {
    Duration wait = retryAfter.map(MaxsimException::parseRetryAfter).orElse(null);
    JsonNode error = body == null ? null : body.path("error");
    if (error == null || !error.path("code").isTextual()) {
      String page = text.strip();
      if (page.length() > MAX_TEXT) page = page.substring(0, MAX_TEXT);
      String message = "HTTP status " + status + (page.isEmpty() ? "" : ": " + page);
      Details details = new Details(status, null, null, null, null, wait, null, null);
      return new MaxsimException(CODES_OF_STATUS.getOrDefault(status, Code.UNKNOWN), message, details, null);
    }
    Details details =
        new Details(
            status,
            error.path("field").textValue(),
            error.path("reason").textValue(),
            longOf(error.path("limit")),
            error.path("limit_key").textValue(),
            wait,
            longOf(error.path("num_deleted")),
            null);
    return new MaxsimException(codeOf(error.path("code").textValue()), error.path("message").asText(""), details, null);
  }

  private static Long longOf(JsonNode number) {
    return number.canConvertToLong() ? number.longValue() : null;
  }

  private static Code codeOf(String name) {
    try {
      return Code.valueOf(name);
    } catch (IllegalArgumentException e) {
      return Code.UNKNOWN;
    }
  }

  /** Reads a number of seconds or, as some proxies send it, a date. Returns null if it is neither. */
  static Duration parseRetryAfter(String value) {
    String text = value.strip();
    if (text.matches("\\d{1,9}(\\.\\d+)?")) return Duration.ofMillis((long) Math.ceil(Double.parseDouble(text) * 1000));
    try {
      Instant date = Instant.from(DateTimeFormatter.RFC_1123_DATE_TIME.parse(text));
      Duration wait = Duration.between(Instant.now(), date);
      return wait.isNegative() ? Duration.ZERO : wait;
    } catch (DateTimeParseException e) {
      return null;
    }
  }
}
