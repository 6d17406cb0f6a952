// Token vectors in requests and answers: {"dtype", "shape", "data"} with the values as base64.

import { ArgumentError } from "./errors.js";

/** Token vectors: one row per token, each a number[] or a Float32Array; or all values in one array with their
 * dimensions [tokens, dim] or [1, tokens, dim], such as a tensor of transformers.js. Values are sent as FP32. */
export type Vectors =
  | readonly ArrayLike<number>[]
  | { readonly data: ArrayLike<number>; readonly dims: readonly number[] };

/** A matrix in a request or an answer. */
export interface WireMatrix {
  dtype: string;
  shape: number[];
  data: string;
}

interface BufferClass {
  from(data: string, encoding: string): Uint8Array;
  from(data: ArrayBuffer, offset: number, length: number): { toString(encoding: string): string };
}
// Node's Buffer, which is much faster than btoa and atob. Browsers do not have it.
const NODE_BUFFER = (globalThis as { Buffer?: BufferClass }).Buffer;
const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** Returns the matrix of a request. Throws ArgumentError, with `name`, if `vectors` is empty or its rows differ in
 * length. */
export function encodeVectors(vectors: Vectors, name: string): WireMatrix {
  const { values, shape } = flatten(vectors, name);
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return { dtype: "f32", shape, data: toBase64(inLittleEndian(bytes, 4)) };
}

function flatten(vectors: Vectors, name: string): { values: Float32Array; shape: [number, number] } {
  if ("data" in vectors && "dims" in vectors) {
    const { data, dims } = vectors;
    const [tokens, dim, ...rest] = dims.length === 3 && dims[0] === 1 ? dims.slice(1) : dims;
    if (tokens === undefined || dim === undefined || rest.length > 0 || tokens * dim !== data.length) {
      throw new ArgumentError(
        `${name}.dims is [${dims.join(", ")}] with ${data.length} values; must be [tokens, dim] or [1, tokens, dim]`,
      );
    }
    if (data.length === 0) throw new ArgumentError(`${name} has no vectors; must have at least one`);
    return { values: data instanceof Float32Array ? data : Float32Array.from(data), shape: [tokens, dim] };
  }
  if (!Array.isArray(vectors) || vectors.length === 0) {
    throw new ArgumentError(`${name} has no vectors; must have at least one row of numbers`);
  }
  const rows = vectors as readonly ArrayLike<number>[];
  const dim = rows[0]?.length ?? 0;
  const values = new Float32Array(rows.length * dim);
  rows.forEach((row, i) => {
    if (typeof row !== "object" || row === null || !(row.length > 0) || row.length !== dim) {
      const length = (row as ArrayLike<number> | undefined)?.length;
      throw new ArgumentError(`${name}[${i}] has ${length} values; every row must have ${dim || "at least one"}`);
    }
    values.set(row, i * dim);
  });
  return { values, shape: [rows.length, dim] };
}

/** Returns the rows of a matrix of an answer as FP32. All rows are views of one buffer. `scale` multiplies values of an
 * I8 matrix. */
export function decodeVectors(matrix: WireMatrix, scale = 1): Float32Array[] {
  const [tokens = 0, dim = 0] = matrix.shape;
  const values = decodeValues(matrix.dtype.toLowerCase(), fromBase64(matrix.data), scale);
  return Array.from({ length: tokens }, (_, i) => values.subarray(i * dim, (i + 1) * dim));
}

function decodeValues(dtype: string, bytes: Uint8Array, scale: number): Float32Array {
  switch (dtype) {
    case "f32":
      return new Float32Array(copyOf(inLittleEndian(bytes, 4)));
    case "bf16": {
      const halves = new Uint16Array(copyOf(inLittleEndian(bytes, 2)));
      const words = Uint32Array.from(halves, (half) => half << 16);
      return new Float32Array(words.buffer);
    }
    case "f16":
      return Float32Array.from(new Uint16Array(copyOf(inLittleEndian(bytes, 2))), halfToNumber);
    case "i8":
      return Float32Array.from(new Int8Array(copyOf(bytes)), (value) => value * scale);
    default:
      throw new TypeError(`tokens.dtype is ${dtype}; this client knows f32, f16, bf16 and i8`);
  }
}

function halfToNumber(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** Copies the bytes to their own buffer, aligned for any type. (Buffer.slice, unlike Uint8Array's, does not copy.) */
function copyOf(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer as ArrayBuffer;
}

/** Converts values of `width` bytes between little-endian and this machine's order, in both directions. */
function inLittleEndian(bytes: Uint8Array, width: number): Uint8Array {
  if (LITTLE_ENDIAN) return bytes;
  return Uint8Array.from(bytes, (_, i) => bytes[i - (i % width) + width - 1 - (i % width)] ?? 0);
}

function toBase64(bytes: Uint8Array): string {
  if (NODE_BUFFER) {
    return NODE_BUFFER.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  }
  const parts: string[] = [];
  // 32,768 arguments are well below what browsers accept in one call.
  for (let i = 0; i < bytes.length; i += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(i, i + 0x8000)));
  return btoa(parts.join(""));
}

function fromBase64(text: string): Uint8Array {
  if (NODE_BUFFER) return NODE_BUFFER.from(text, "base64");
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
