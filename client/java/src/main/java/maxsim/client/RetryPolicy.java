package maxsim.client;

import java.time.Duration;
import java.util.Optional;
import java.util.function.DoubleSupplier;

/**
 * How often a call is tried, and how long the client waits between attempts. Immutable.
 *
 * <p>{@code UNAVAILABLE} is retried. {@code RESOURCE_EXHAUSTED} is retried if the server says when to come back
 * ({@code Retry-After}); without that it means "too large". The wait before retry n, counted from 0, is {@code
 * initialBackoff * multiplier^n}, at most {@code maxBackoff}, changed at random by up to {@code jitter} of itself, and
 * at least {@code Retry-After}. An attempt that could not begin within the call's timeout is not made.
 *
 * @param maxAttempts attempts of one request, the first included; 1 never retries
 * @param initialBackoff the wait before the first retry
 * @param maxBackoff the longest wait, unless the server asks for a longer one
 * @param multiplier at least 1
 * @param jitter 0 to 1: a wait of t becomes one between {@code t * (1 - jitter)} and {@code t * (1 + jitter)}
 */
public record RetryPolicy(
    int maxAttempts, Duration initialBackoff, Duration maxBackoff, double multiplier, double jitter) {
  private static final Duration MAX = Duration.ofDays(365); // far below the limits of long; DEFAULT needs it

  /** Seven attempts, after 50, 100, 200, 400, 800 and 1600 ms, with a jitter of 0.2: about 3 seconds. */
  public static final RetryPolicy DEFAULT =
      new RetryPolicy(7, Duration.ofMillis(50), Duration.ofSeconds(2), 2.0, 0.2);

  /** One attempt. */
  public static final RetryPolicy NEVER = DEFAULT.withMaxAttempts(1);

  /** Throws IllegalArgumentException that names the wrong option, its value and what is accepted. */
  public RetryPolicy {
    check(maxAttempts >= 1, "maxAttempts", maxAttempts, "1 or more");
    check(initialBackoff.compareTo(Duration.ZERO) > 0, "initialBackoff", initialBackoff, "more than 0");
    String rule = "at least initialBackoff, " + initialBackoff;
    check(maxBackoff.compareTo(initialBackoff) >= 0, "maxBackoff", maxBackoff, rule);
    check(maxBackoff.compareTo(MAX) <= 0, "maxBackoff", maxBackoff, "at most " + MAX);
    check(multiplier >= 1 && Double.isFinite(multiplier), "multiplier", multiplier, "1 or more");
    check(jitter >= 0 && jitter <= 1, "jitter", jitter, "from 0 to 1");
  }

  /** Returns this policy with another number of attempts. */
  public RetryPolicy withMaxAttempts(int maxAttempts) {
    return new RetryPolicy(maxAttempts, initialBackoff, maxBackoff, multiplier, jitter);
  }

  /** Returns this policy with other waits. */
  public RetryPolicy withBackoff(Duration initialBackoff, Duration maxBackoff) {
    return new RetryPolicy(maxAttempts, initialBackoff, maxBackoff, multiplier, jitter);
  }

  /** Returns this policy with another jitter. */
  public RetryPolicy withJitter(double jitter) {
    return new RetryPolicy(maxAttempts, initialBackoff, maxBackoff, multiplier, jitter);
  }

  /**
   * Returns how long to wait after the failed attempt number {@code attempt}, counted from 1, or nothing if {@code
   * error} is final. {@code remaining} is the rest of the call's time; {@code random} returns numbers in [0, 1).
   */
  Optional<Duration> nextDelay(MaxsimException error, int attempt, Duration remaining, DoubleSupplier random) {
    boolean isBusy = error.code() == MaxsimException.Code.RESOURCE_EXHAUSTED && error.retryAfter().isPresent();
    boolean mayRetry = isBusy || error.code() == MaxsimException.Code.UNAVAILABLE;
    if (attempt >= maxAttempts || !mayRetry) return Optional.empty();
    // The power may be infinite after many attempts; the minimum holds.
    double backoff = Math.min(initialBackoff.toNanos() * Math.pow(multiplier, attempt - 1), maxBackoff.toNanos());
    Duration delay = Duration.ofNanos((long) (backoff * (1 + jitter * (2 * random.getAsDouble() - 1))));
    Duration asked = error.retryAfter().orElse(Duration.ZERO);
    if (asked.compareTo(delay) > 0) delay = asked;
    return delay.compareTo(remaining) < 0 ? Optional.of(delay) : Optional.empty();
  }

  private static void check(boolean isAccepted, String name, Object value, String rule) {
    if (!isAccepted) throw new IllegalArgumentException("retry." + name + " is " + value + "; must be " + rule);
  }
}
