// Makes the results of Client's methods from the JSON of answers.

import type { Integer, JsonValue } from "./json.js";
import { decodeVectors, type WireMatrix } from "./matrix.js";
import type {
  DeleteSummary,
  Explanation,
  Facets,
  Id,
  RankedDocument,
  Ranking,
  RefinementResult,
  ServerInfo,
  StoredDocument,
  Timings,
  WriteResult,
  WriteResults,
} from "./types.js";

interface WireResult {
  id?: Id | null;
  index: number;
  relevance_score: number;
  document?: JsonValue;
  group?: string;
  alignment?: { document_tokens: number[]; similarities: number[] };
  truncated?: boolean;
}

interface WireRanking {
  results: WireResult[];
  missing?: Id[];
  unavailable_documents?: Integer;
  unavailable_groups?: string[];
  model?: string;
  generation: Integer;
  id: string;
  sequence?: Integer;
  query_tokens?: string[];
  query_truncated?: boolean;
  refinement?: object;
  timings: object;
}

export function readRanking(answer: unknown, wantsPayloads: boolean): Ranking {
  const wire = answer as WireRanking;
  const ranking: Ranking = {
    documents: wire.results.map((one) => readRanked(one, wantsPayloads)),
    missing: wire.missing ?? [],
    unavailableDocuments: wire.unavailable_documents ?? 0,
    unavailableGroups: wire.unavailable_groups ?? [],
    collection: wire.model ?? "",
    generation: wire.generation,
    requestId: wire.id,
    sequence: wire.sequence ?? 0,
    queryTokens: wire.query_tokens ?? [],
    queryTruncated: wire.query_truncated ?? false,
    timings: inCamelCase(wire.timings) as Timings,
  };
  if (wire.refinement !== undefined) ranking.refinement = inCamelCase(wire.refinement) as RefinementResult;
  return ranking;
}

function readRanked(one: WireResult, wantsPayloads: boolean): RankedDocument {
  const document: RankedDocument = {
    position: one.index,
    score: one.relevance_score,
    truncated: one.truncated ?? false,
  };
  if (one.id !== undefined && one.id !== null) document.id = one.id;
  if (wantsPayloads && one.document !== undefined) document.payload = one.document;
  if (one.group !== undefined) document.group = one.group;
  if (one.alignment !== undefined) {
    document.matches = one.alignment.document_tokens;
    document.similarities = one.alignment.similarities;
  }
  return document;
}

export function readWrites(answer: unknown): WriteResults {
  const wire = answer as { results?: (Omit<WriteResult, "truncated"> & { truncated?: boolean })[]; sequence: Integer };
  const results = (wire.results ?? []).map((one) => ({ ...one, truncated: one.truncated ?? false }));
  return { results, sequence: wire.sequence };
}

export function readDeleted(answer: unknown): DeleteSummary & { hasMore: boolean } {
  return inCamelCase(answer) as DeleteSummary & { hasMore: boolean };
}

interface WireStored {
  id: Id;
  num_tokens: number;
  payload?: JsonValue;
  version?: Integer;
  sequence?: Integer;
  tokens?: WireMatrix;
  scale?: number;
}

export interface StoredAnswer {
  documents: StoredDocument[];
  missing: Id[];
  hasMore: boolean;
  generation: Integer;
  sequence: Integer;
}

/** Reads an answer of .../documents/get or .../documents/scroll. */
export function readStored(answer: unknown): StoredAnswer {
  const wire = answer as {
    documents: WireStored[];
    missing?: Id[];
    has_more?: boolean;
    generation: Integer;
    sequence?: Integer;
  };
  return {
    documents: wire.documents.map(readDocument),
    missing: wire.missing ?? [],
    hasMore: wire.has_more ?? false,
    generation: wire.generation,
    sequence: wire.sequence ?? 0,
  };
}

function readDocument(wire: WireStored): StoredDocument {
  const document: StoredDocument = {
    id: wire.id,
    numTokens: wire.num_tokens,
    version: wire.version ?? 0,
    sequence: wire.sequence ?? 0,
  };
  if (wire.payload !== undefined) document.payload = wire.payload;
  if (wire.tokens !== undefined) document.tokens = decodeVectors(wire.tokens, wire.scale);
  return document;
}

export function readFacets(answer: unknown): Facets {
  const { values, num_values: numValues, num_documents: numDocuments } = answer as {
    values: Facets["values"];
    num_values: number;
    num_documents: number;
  };
  return { values, numValues, numDocuments };
}

export function readExplanation(answer: unknown): Explanation {
  const wire = answer as {
    id: Id;
    model?: string;
    generation: Integer;
    score: number;
    similarities: number[][];
    query_tokens?: string[] | null;
    document_tokens?: string[] | null;
    query_truncated?: boolean;
  };
  return {
    id: wire.id,
    collection: wire.model ?? "",
    generation: wire.generation,
    score: wire.score,
    similarities: wire.similarities,
    queryTokens: wire.query_tokens ?? [],
    documentTokens: wire.document_tokens ?? [],
    queryTruncated: wire.query_truncated ?? false,
  };
}

export function readInfo(answer: unknown): ServerInfo {
  const info = inCamelCase(answer) as ServerInfo;
  for (const collection of info.collections) {
    collection.state = collection.state.toLowerCase() as (typeof collection)["state"];
  }
  return info;
}

/** Renames the members of objects, at all depths: num_tokens becomes numTokens. Not for payloads. */
function inCamelCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inCamelCase);
  if (typeof value !== "object" || value === null) return value;
  const renamed = (name: string) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [renamed(name), inCamelCase(one)]));
}
