// JSON with exact integers. JSON.parse rounds integers beyond 2^53; here they become a bigint.

/** An integer: a number if it is at most 2^53 - 1 in magnitude, otherwise a bigint. */
export type Integer = number | bigint;

/** A JSON value, as payloads hold them. */
export type JsonValue = null | boolean | number | bigint | string | JsonValue[] | { [name: string]: JsonValue };
export type JsonObject = { [name: string]: JsonValue };

// Finds an integer of at least 16 digits. It may also find one inside a string, which only costs time.
const MAY_BE_UNSAFE = /(?:^|[[,:\s])-?\d{16,}(?=[,\]}\s]|$)/;
// A string, with the colon after it if it is a member's name; or a number.
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const INTEGER = /^-?\d+$/;

/** Parses JSON. An integer beyond 2^53 - 1 becomes a bigint. Throws SyntaxError if the text is not JSON. */
export function parseJson(text: string): unknown {
  if (!MAY_BE_UNSAFE.test(text)) return JSON.parse(text);
  // Writes an unsafe integer as a string that begins with "i", and lets all other strings begin with "s", so that no
  // string of the text can be mistaken for an integer.
  const marked = text.replace(STRING_OR_NUMBER, (found: string, colon: string | undefined) => {
    if (found.startsWith('"')) return colon === undefined ? `"s${found.slice(1)}` : found;
    return INTEGER.test(found) && !Number.isSafeInteger(Number(found)) ? `"i${found}"` : found;
  });
  return JSON.parse(marked, (_name, value: unknown) => {
    if (typeof value !== "string") return value;
    return value.startsWith("i") ? BigInt(value.slice(1)) : value.slice(1);
  });
}

/** Writes a value as JSON, a bigint as an integer. Members that are undefined are left out. Throws TypeError that names
 * the value (`path`) if it is not a value of JSON, such as NaN or a function. */
export function toJson(value: unknown, path = ""): string {
  switch (typeof value) {
    case "bigint":
      return value.toString();
    case "string":
    case "boolean":
      return JSON.stringify(value);
    case "number":
      if (Number.isFinite(value)) return JSON.stringify(value);
      break;
    case "object":
      return value === null ? "null" : objectToJson(value, path);
  }
  throw new TypeError(`${path} is ${String(value)}; JSON has no such value`);
}

function objectToJson(value: object, path: string): string {
  const own = value as { toJSON?: unknown };
  if (typeof own.toJSON === "function") return toJson(own.toJSON(), path);
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    return `[${Array.from(value as ArrayLike<unknown>, (one, i) => toJson(one, `${path}[${i}]`)).join(",")}]`;
  }
  const members = Object.entries(value).filter(([, one]) => one !== undefined);
  const prefix = path === "" ? "" : `${path}.`;
  return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${toJson(one, prefix + name)}`).join(",")}}`;
}
