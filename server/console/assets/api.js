// Asks the server that the page came from.
import { askForToken, refuseToken, token } from "./token.js";

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// An int64 id that a JavaScript number cannot hold exactly becomes a string.
function exactIds(key, value, context) {
  if (key === "id" && typeof value === "number" && !Number.isSafeInteger(value) && context?.source !== undefined) {
    return context.source;
  }
  return value;
}

// Returns the id of a document as a value that JSON.stringify writes as a number with all its digits. For collections
// whose ids are 64-bit integers.
export function integerId(id) {
  const number = Number(id);
  if (Number.isSafeInteger(number) || JSON.rawJSON === undefined || !/^-?[1-9]\d*$/.test(id)) {
    return Number.isNaN(number) ? id : number;
  }
  return JSON.rawJSON(id);
}

async function call(path, options) {
  const headers = { ...options.headers };
  if (token() !== "") headers.Authorization = `Bearer ${token()}`;
  let response = null;
  let text = "";
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
    text = await response.text();
  } catch {
    throw new ApiError(0, "UNAVAILABLE", "The server does not answer.");
  }
  let body = null;
  try {
    body = JSON.parse(text, exactIds);
  } catch {
    throw new ApiError(response.status, "UNKNOWN", text.trim() || `HTTP status ${response.status}`);
  }
  if (response.ok) return body;
  // An answer without an error object comes from a proxy, not from the server.
  const error = body?.error ?? {};
  throw new ApiError(response.status, error.code ?? "UNKNOWN", error.message ?? `HTTP status ${response.status}`);
}

// True after a person has cancelled the dialog for the token. Then calls that the page makes by itself fail without a
// dialog. The next call that a person causes opens the dialog again.
let declined = false;

async function callWithToken(path, options, is_own) {
  for (;;) {
    const used = token();
    try {
      return await call(path, options);
    } catch (error) {
      if (error.status !== 401) throw error;
      // If a person has entered another token meanwhile, repeat the call with it.
      if (token() !== used) continue;
      if (is_own && declined) throw error;
      refuseToken(used);
      declined = !(await askForToken(true));
      if (declined) throw error;
    }
  }
}

// Makes a call that the page makes by itself.
export function get(path) {
  return callWithToken(path, { method: "GET" }, true);
}

// Makes a call that a person causes.
export function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return callWithToken(path, { method: "POST", headers, body: JSON.stringify(body) }, false);
}
