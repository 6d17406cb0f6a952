// Makes the bodies of requests from the arguments of Client's methods.

import { ArgumentError } from "./errors.js";
import type { Integer } from "./json.js";
import { toJson } from "./json.js";
import { encodeVectors } from "./matrix.js";
import type { ExplainRequest, Id, InlineDocument, NewDocument, Query, Refinement, RerankRequest } from "./types.js";

export const MAX_DOCUMENTS_PER_UPSERT = 10_000;
const DEFAULT_MAX_BODY_BYTES = 16 * 1024 * 1024;

/** Returns a body as JSON. A value that JSON does not have, such as NaN, becomes an ArgumentError. */
export function bodyOf(members: object): string {
  try {
    return toJson(members);
  } catch (error) {
    if (error instanceof TypeError) throw new ArgumentError(error.message);
    throw error;
  }
}

/** Returns an id if it can be sent exactly. */
export function checkId(id: Id, name: string): Id {
  if (typeof id === "number" && !Number.isSafeInteger(id)) {
    throw new ArgumentError(`${name} is ${id}; must be a string, an integer up to 2^53 - 1 or a bigint`);
  }
  if (typeof id !== "string" && typeof id !== "number" && typeof id !== "bigint") {
    throw new ArgumentError(`${name} is ${String(id)}; must be a string or an integer`);
  }
  return id;
}

export function checkIds(ids: readonly Id[], name = "ids"): readonly Id[] {
  if (!Array.isArray(ids)) throw new ArgumentError(`${name} is ${String(ids)}; must be an array of ids`);
  if (ids.length === 0) throw new ArgumentError(`${name} is empty; must have at least one id`);
  ids.forEach((id: Id, i) => checkId(id, `${name}[${i}]`));
  return ids;
}

/** Returns a version or a sequence if it can be sent exactly. */
export function checkInteger(value: Integer | undefined, name: string): Integer | undefined {
  if (value === undefined || typeof value === "bigint" || Number.isSafeInteger(value)) return value;
  throw new ArgumentError(`${name} is ${value}; must be an integer up to 2^53 - 1 or a bigint`);
}

export function checkCollection(collection: string): string {
  if (typeof collection === "string" && collection !== "") return collection;
  throw new ArgumentError(`collection is ${String(collection) || '""'}; must be the name of a collection`);
}

function queryOf(query: Query, name: string): unknown {
  return typeof query === "string" ? query : encodeVectors(query, name);
}

function documentsOf(documents: readonly InlineDocument[]): unknown[] {
  if (documents.length === 0) throw new ArgumentError("documents is empty; must have at least one document");
  return documents.map((one, i) =>
    typeof one === "string" ? { text: one } : { tokens: encodeVectors(one, `documents[${i}]`) },
  );
}

function candidatesOf({ ids, documents }: Pick<RerankRequest, "ids" | "documents">): unknown {
  if (ids !== undefined && documents !== undefined) {
    throw new ArgumentError("ids and documents are both given; must be one of them, or none for the whole collection");
  }
  if (documents !== undefined) return documentsOf(documents);
  if (ids === undefined) return "*";
  ids.forEach((id, i) => checkId(id, `ids[${i}]`));
  return ids;
}

function refinementOf(refinement: Refinement | undefined): object | undefined {
  if (refinement === undefined) return undefined;
  const { documents, budget, requireProof } = refinement;
  return { documents, budget: checkInteger(budget, "refinement.budget"), require_proof: requireProof };
}

/** Returns the body of /v1/rerank. */
export function rerankBody(request: RerankRequest): string {
  const { payloads, payloadFields } = request;
  return bodyOf({
    model: request.collection,
    query: queryOf(request.query, "query"),
    documents: candidatesOf(request),
    query_weights: request.weights,
    top_n: request.topK ?? 10,
    offset: request.offset,
    min_score: request.minScore,
    filter: request.filter,
    group_by: request.groupBy,
    group_size: request.groupSize,
    return_documents: payloads || payloadFields !== undefined ? true : undefined,
    payload_fields: payloadFields,
    return_alignments: request.alignments,
    normalize: request.normalize,
    refinement: refinementOf(request.refinement),
    request_id: request.requestId,
    min_sequence: checkInteger(request.minSequence, "minSequence"),
  });
}

/** Returns the body of /v1/explain. */
export function explainBody(request: ExplainRequest): string {
  return bodyOf({
    model: request.collection,
    query: queryOf(request.query, "query"),
    id: checkId(request.id, "id"),
    query_weights: request.weights,
  });
}

/** A part of an upsert: the body, and the index and number of its documents. */
export interface UpsertBatch {
  body: string;
  first: number;
  count: number;
}

/** Yields the bodies of requests that write `documents`, each with at most 10,000 documents and `maxBodyBytes`. A
 * single larger document is sent alone, so that the server's error says how large it may be. */
export function* upsertBodies(
  documents: Iterable<NewDocument>,
  maxBodyBytes = DEFAULT_MAX_BODY_BYTES,
): Generator<UpsertBatch> {
  const encoder = new TextEncoder();
  const overhead = '{"documents":[]}'.length - 1; // The last document has no comma after it.
  let texts: string[] = [];
  let bytes = overhead;
  let first = 0;
  const batch = (): UpsertBatch => ({ body: `{"documents":[${texts.join(",")}]}`, first, count: texts.length });
  for (const document of documents) {
    const text = documentText(document, `documents[${first + texts.length}]`);
    const size = encoder.encode(text).length + 1; // with the comma after it
    if (texts.length === MAX_DOCUMENTS_PER_UPSERT || (texts.length > 0 && bytes + size > maxBodyBytes)) {
      yield batch();
      first += texts.length;
      texts = [];
      bytes = overhead;
    }
    texts.push(text);
    bytes += size;
  }
  if (texts.length > 0) yield batch();
  else if (first === 0) throw new ArgumentError("documents is empty; must have at least one document");
}

function documentText(document: NewDocument, name: string): string {
  const { id, tokens, text, payload, version } = document;
  if ((tokens === undefined) === (text === undefined)) {
    const given = text === undefined ? "neither tokens nor text" : "both tokens and text";
    throw new ArgumentError(`${name} has ${given}; must have one of them`);
  }
  try {
    return toJson({
      id: checkId(id, `${name}.id`),
      tokens: tokens === undefined ? undefined : encodeVectors(tokens, `${name}.tokens`),
      text,
      payload,
      version: checkInteger(version, `${name}.version`),
    });
  } catch (error) {
    if (error instanceof TypeError) throw new ArgumentError(`${name}.${error.message}`);
    throw error;
  }
}
