import type { Integer } from "./json.js";

/** The name of gRPC's status code of an error. */
export type ErrorCode =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

/** What an error has besides its code and message. A member is absent if it does not apply. */
export interface ErrorDetails {
  /** HTTP status. Absent if there was no answer. */
  status?: number;
  /** Path of the wrong field in the body of the HTTP request, such as "query.shape[1]". */
  field?: string;
  /** A word such as "LIMIT_EXCEEDED" (docs/reference/errors.md lists them). Later servers may send further words. */
  reason?: string;
  /** The largest accepted value, and the configuration key that sets it. */
  limit?: Integer;
  limitKey?: string;
  /** Seconds after which the server asks to be called again. */
  retryAfter?: number;
  /** Number of documents that a failed delete with a filter has deleted. */
  numDeleted?: number;
  /** In rerankMany: index of the query whose request failed. */
  queryIndex?: number;
  cause?: unknown;
}

/** A call failed: the server refused it, could not be reached, or did not answer in time. */
export class MaxsimError extends Error implements ErrorDetails {
  override readonly name = "MaxsimError";
  readonly code: ErrorCode;
  readonly status?: number;
  readonly field?: string;
  readonly reason?: string;
  readonly limit?: Integer;
  readonly limitKey?: string;
  readonly retryAfter?: number;
  readonly numDeleted?: number;
  readonly queryIndex?: number;
  readonly cause?: unknown;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message);
    this.code = code;
    Object.assign(this, details);
  }

  /** Returns the same error with other details. */
  with(details: ErrorDetails): MaxsimError {
    const { status, field, reason, limit, limitKey, retryAfter, numDeleted, queryIndex, cause } = this;
    const own = { status, field, reason, limit, limitKey, retryAfter, numDeleted, queryIndex, cause };
    const present = Object.entries(own).filter(([, value]) => value !== undefined);
    return new MaxsimError(this.code, this.message, { ...Object.fromEntries(present), ...details });
  }
}

/** An argument is wrong, so no request was sent. The message names the argument, its value and what is accepted. */
export class ArgumentError extends Error {
  override readonly name = "ArgumentError";
}

// Codes for answers without a body of maxsimd, for example from a proxy.
const CODES_OF_STATUS: { readonly [status: number]: ErrorCode } = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  413: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  499: "CANCELLED",
  500: "INTERNAL",
  501: "UNIMPLEMENTED",
  502: "UNAVAILABLE",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

/** Makes the error of an answer whose status is not 2xx. `body` is the parsed body, or its text if it is not JSON.
 * `retryAfter` is the value of the header Retry-After. */
export function errorOfAnswer(status: number, body: unknown, retryAfter: string | null): MaxsimError {
  const details: ErrorDetails = { status };
  const seconds = parseRetryAfter(retryAfter);
  if (seconds !== undefined) details.retryAfter = seconds;
  const error = (body as { error?: { [name: string]: unknown } } | null)?.error;
  if (typeof error !== "object" || typeof error["code"] !== "string") {
    const text = typeof body === "string" && body !== "" ? `: ${body.slice(0, 200).trim()}` : "";
    return new MaxsimError(CODES_OF_STATUS[status] ?? "UNKNOWN", `HTTP status ${status}${text}`, details);
  }
  const { field, reason, limit, limit_key: limitKey, num_deleted: numDeleted } = error;
  if (typeof field === "string") details.field = field;
  if (typeof reason === "string") details.reason = reason;
  if (typeof limit === "number" || typeof limit === "bigint") details.limit = limit;
  if (typeof limitKey === "string") details.limitKey = limitKey;
  if (typeof numDeleted === "number") details.numDeleted = numDeleted;
  return new MaxsimError(error["code"] as ErrorCode, String(error["message"] ?? ""), details);
}

/** Returns the seconds to wait. The header Retry-After has a number of seconds or, from some proxies, a date. */
export function parseRetryAfter(value: string | null): number | undefined {
  if (value === null || value.trim() === "") return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(value)) return Number(value);
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}
