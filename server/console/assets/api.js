// Asks the server that the page came from.
import { askForToken, refuseToken, token } from "./token.js";

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// An int64 id may be larger than a number can hold exactly. Its digits are then kept as a text.
function exactIds(key, value, context) {
  if (key === "id" && typeof value === "number" && !Number.isSafeInteger(value) && context?.source !== undefined) {
    return context.source;
  }
  return value;
}

// Returns an id of a collection whose ids are 64-bit integers as JSON.stringify writes it with all its digits.
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
  // An answer without an error object comes from something between here and the server.
  const error = body?.error ?? {};
  throw new ApiError(response.status, error.code ?? "UNKNOWN", error.message ?? `HTTP status ${response.status}`);
}

// Set when the dialog was cancelled: from then on the page's own calls fail, and only a person's action opens it again.
let declined = false;

async function callWithToken(path, options, is_own) {
  for (;;) {
    const used = token();
    try {
      return await call(path, options);
    } catch (error) {
      if (error.status !== 401) throw error;
      // A token may have been entered while this call was on its way.
      if (token() !== used) continue;
      if (is_own && declined) throw error;
      refuseToken(used);
      declined = !(await askForToken(true));
      if (declined) throw error;
    }
  }
}

// For what the page asks by itself, now and again.
export function get(path) {
  return callWithToken(path, { method: "GET" }, true);
}

// For what a person asks.
export function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return callWithToken(path, { method: "POST", headers, body: JSON.stringify(body) }, false);
}
