export { Client } from "./client.js";
export { ArgumentError, MaxsimError, type ErrorCode, type ErrorDetails } from "./errors.js";
export type { Integer, JsonObject, JsonValue } from "./json.js";
export type { Vectors } from "./matrix.js";
export type { RetryOptions } from "./retry.js";
export type { CallOptions, ClientOptions } from "./transport.js";
export * from "./types.js";
