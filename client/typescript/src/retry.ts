// Decides whether and when a failed call is tried again. The rules are those of the C++ client (client/retry.h).

import { ArgumentError, MaxsimError } from "./errors.js";

/** How often a call is tried, and how long the client waits between attempts.
 *
 * UNAVAILABLE is retried. RESOURCE_EXHAUSTED is retried if the server says when to come back (Retry-After); without
 * that it means "too large". The wait before retry n, counted from 0, is initialBackoffMs * multiplier^n, at most
 * maxBackoffMs, changed at random by up to +-jitter, and at least Retry-After. An attempt that could not begin within
 * the call's timeout is not made. */
export interface RetryOptions {
  /** Attempts of one request, the first included. Default 7, which covers about 3 seconds. 1 never retries. */
  maxAttempts?: number;
  /** Default 50. */
  initialBackoffMs?: number;
  /** Default 2000. */
  maxBackoffMs?: number;
  /** At least 1. Default 2. */
  multiplier?: number;
  /** 0 to 1. Default 0.2: a wait of t becomes one between 0.8 t and 1.2 t. */
  jitter?: number;
}

/** Returns the options with defaults. Throws ArgumentError if one is wrong. */
export function checkRetry(options: RetryOptions = {}): Required<RetryOptions> {
  const { maxAttempts = 7, initialBackoffMs = 50, maxBackoffMs = 2000, multiplier = 2, jitter = 0.2 } = options;
  // Written so that NaN fails too.
  const check = (name: string, value: number, accepted: boolean, rule: string) => {
    if (!accepted) throw new ArgumentError(`retry.${name} is ${value}; must be ${rule}`);
  };
  check("maxAttempts", maxAttempts, Number.isInteger(maxAttempts) && maxAttempts >= 1, "an integer of 1 or more");
  check("initialBackoffMs", initialBackoffMs, initialBackoffMs > 0, "more than 0");
  const rule = `at least initialBackoffMs, ${initialBackoffMs}`;
  check("maxBackoffMs", maxBackoffMs, maxBackoffMs >= initialBackoffMs, rule);
  check("multiplier", multiplier, multiplier >= 1 && multiplier < Infinity, "1 or more");
  check("jitter", jitter, jitter >= 0 && jitter <= 1, "from 0 to 1");
  return { maxAttempts, initialBackoffMs, maxBackoffMs, multiplier, jitter };
}

/** Returns how many milliseconds to wait after the failed attempt number `attempt`, counted from 1, or undefined if
 * `error` is final. `remainingMs` is the rest of the call's time. `random` returns numbers in [0, 1). */
export function nextDelayMs(
  retry: Required<RetryOptions>,
  error: MaxsimError,
  attempt: number,
  remainingMs: number,
  random: () => number = Math.random,
): number | undefined {
  const busy = error.code === "RESOURCE_EXHAUSTED" && error.retryAfter !== undefined;
  if (attempt >= retry.maxAttempts || !(busy || error.code === "UNAVAILABLE")) return undefined;
  const backoff = Math.min(retry.initialBackoffMs * retry.multiplier ** (attempt - 1), retry.maxBackoffMs);
  const varied = backoff * (1 + retry.jitter * (2 * random() - 1));
  const delay = Math.max(varied, (error.retryAfter ?? 0) * 1000);
  return delay < remainingMs ? delay : undefined;
}
