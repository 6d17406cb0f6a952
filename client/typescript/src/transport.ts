// Makes the HTTP requests of a client: retries, timeout, cancelling, token.

import { ArgumentError, errorOfAnswer, MaxsimError } from "./errors.js";
import { parseJson } from "./json.js";
import { checkRetry, nextDelayMs, type RetryOptions } from "./retry.js";

export interface ClientOptions {
  /** Address of the server's HTTP port, such as "http://localhost:7071"; may have a path, if a proxy needs one. */
  url: string;
  /** Bearer token, or a function that returns it, which is called before each attempt. */
  token?: string | (() => string | Promise<string>);
  /** Time for one request with all its attempts and waits. Default 30,000; at most 2^31 - 1. */
  timeoutMs?: number;
  retry?: RetryOptions;
  /** Tells the server which client sends a request, for fairness between clients (header x-client-id). */
  clientId?: string;
  /** Headers to add to every request. */
  headers?: Readonly<Record<string, string>>;
  /** Replaces the global fetch, for example by nodeFetch of "maxsim/node". It must heed init.signal. */
  fetch?: typeof fetch;
}

/** Options of a single call. */
export interface CallOptions {
  /** Cancels the call. The call then rejects with signal.reason, as fetch does. */
  signal?: AbortSignal;
  /** Replaces the client's timeoutMs. */
  timeoutMs?: number;
}

/** An answer: its status, and its parsed body, or the body's text if it is not JSON. */
export interface Answer {
  status: number;
  body: unknown;
}

const MAX_TIMEOUT_MS = 2 ** 31 - 1; // the most that setTimeout takes

export class Transport {
  private readonly url: string;
  private readonly token: ClientOptions["token"];
  private readonly headers: Readonly<Record<string, string>>;
  private readonly timeoutMs: number;
  private readonly retry: Required<RetryOptions>;
  private readonly fetch: typeof fetch;

  constructor(options: ClientOptions) {
    let parsed: URL | undefined;
    try {
      parsed = new URL(options.url);
    } catch {
      // Refused below.
    }
    if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
      throw new ArgumentError(`url is ${options.url}; must be an http or https URL, such as http://localhost:7071`);
    }
    this.url = parsed.origin + parsed.pathname.replace(/\/+$/, "");
    this.token = options.token;
    this.timeoutMs = checkTimeout(options.timeoutMs ?? 30_000);
    this.retry = checkRetry(options.retry);
    this.fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.headers = {
      ...options.headers,
      ...(options.clientId === undefined ? {} : { "x-client-id": options.clientId }),
    };
    for (const [name, value] of Object.entries(this.headers)) checkHeader(name, value, `headers.${name}`);
    if (typeof options.token === "string") checkToken(options.token);
  }

  /** Makes a request, and repeats it as long as its error permits a retry. Returns the parsed body. `body` is JSON.
   * `onFailure` gets the error of each attempt that fails. */
  async call(
    method: string,
    path: string,
    body: string | undefined,
    options: CallOptions = {},
    onFailure: (error: MaxsimError) => void = () => {},
  ): Promise<unknown> {
    const deadline = this.deadlineOf(options);
    for (let attempt = 1; ; attempt++) {
      let failure: MaxsimError;
      try {
        return await this.attempt(method, path, body, deadline, options);
      } catch (error) {
        if (!(error instanceof MaxsimError)) throw error;
        failure = error;
      }
      onFailure(failure);
      const delay = nextDelayMs(this.retry, failure, attempt, deadline.endsAt - performance.now());
      if (delay === undefined) throw failure;
      await sleep(delay, options.signal);
    }
  }

  /** Makes a request once. Returns the answer, whatever its status. Throws only if there is no answer. */
  async once(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const { status, text } = await this.send(method, path, undefined, this.deadlineOf(options), options);
    return { status, body: parseIfJson(text) };
  }

  private deadlineOf(options: CallOptions): Deadline {
    const timeoutMs = options.timeoutMs === undefined ? this.timeoutMs : checkTimeout(options.timeoutMs);
    return { timeoutMs, endsAt: performance.now() + timeoutMs };
  }

  private async attempt(
    method: string,
    path: string,
    body: string | undefined,
    deadline: Deadline,
    options: CallOptions,
  ): Promise<unknown> {
    const { status, text, retryAfter } = await this.send(method, path, body, deadline, options);
    if (status < 200 || status > 299) throw errorOfAnswer(status, parseIfJson(text), retryAfter);
    try {
      return parseJson(text);
    } catch (cause) {
      const message = `the answer of ${this.url}${path} is not JSON; is this the HTTP port of maxsimd?`;
      throw new MaxsimError("INTERNAL", message, { status, cause });
    }
  }

  private async send(method: string, path: string, body: string | undefined, deadline: Deadline, options: CallOptions) {
    const { signal } = options;
    if (signal?.aborted) throw reasonOf(signal);
    const headers: Record<string, string> = { ...this.headers };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (this.token !== undefined) {
      const token = typeof this.token === "string" ? this.token : checkToken(await this.token());
      headers["authorization"] = `Bearer ${token}`;
    }
    const controller = new AbortController();
    const abort = () => controller.abort();
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort(); // It may have been aborted while the token was fetched.
    const timer = setTimeout(abort, Math.max(0, deadline.endsAt - performance.now()));
    try {
      const init: RequestInit = { method, headers, signal: controller.signal, redirect: "error" };
      if (body !== undefined) init.body = body;
      const { fetch } = this; // A browser's fetch must not be called as a method of another object.
      const answer = await fetch(this.url + path, init);
      const text = await answer.text();
      return { status: answer.status, text, retryAfter: answer.headers.get("retry-after") };
    } catch (cause) {
      if (signal?.aborted) throw reasonOf(signal);
      if (controller.signal.aborted) {
        const message = `no answer from ${this.url} within ${deadline.timeoutMs} ms, the timeout of the call`;
        throw new MaxsimError("DEADLINE_EXCEEDED", message, { cause });
      }
      throw new MaxsimError("UNAVAILABLE", `cannot reach maxsimd at ${this.url}: ${messageOf(cause)}`, { cause });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

interface Deadline {
  timeoutMs: number;
  /** Time of performance.now(). */
  endsAt: number;
}

function checkTimeout(timeoutMs: number): number {
  if (timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS) return timeoutMs;
  throw new ArgumentError(`timeoutMs is ${timeoutMs}; must be more than 0 and at most ${MAX_TIMEOUT_MS}`);
}

function checkHeader(name: string, value: string, argument: string): void {
  try {
    new Headers([[name, value]]);
  } catch {
    throw new ArgumentError(`${argument} cannot be sent in an HTTP header; must be printable ASCII`);
  }
}

/** Returns the token. Errors do not show it. */
function checkToken(token: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new ArgumentError("token is empty or has spaces, line ends or other characters; must be printable ASCII");
}

function parseIfJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

function reasonOf(signal: AbortSignal): unknown {
  return signal.reason ?? new DOMException("the call was cancelled", "AbortError");
}

/** Returns the message of an error with that of its cause, where Node puts the reason of a failed connection. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = (error as { cause?: unknown }).cause;
  if (!(cause instanceof Error)) return error.message;
  // When several addresses of a name fail, Node's error has a code but no message.
  return `${error.message}: ${cause.message || (cause as { code?: string }).code || cause.name}`;
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal === undefined ? undefined : reasonOf(signal));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}
