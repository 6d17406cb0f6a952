// Arguments and results of the methods of Client.

import type { Integer, JsonObject, JsonValue } from "./json.js";
import type { Vectors } from "./matrix.js";

/** Id of a document. A collection has either strings or 64-bit integers. Integers beyond 2^53 - 1 are bigints. */
export type Id = string | number | bigint;

/** A query: token vectors, or a text, for which the server needs an encoder. */
export type Query = string | Vectors;

/** A document that comes with the request: its text or its token vectors. */
export type InlineDocument = string | Vectors;

/** A filter as text, such as 'lang = "en" and year >= 2020', or as an object (docs/reference/filters.md). */
export type Filter = string | JsonObject;

/** How a collection with codes is scanned (docs/use/search.md). */
export interface Refinement {
  documents?: number;
  budget?: Integer;
  requireProof?: boolean;
}

/** Options that rerank, rerankMany and search share. */
export interface RankingOptions {
  /** Number of results. Default 10. */
  topK?: number;
  /** Ranks to leave out before the first result. */
  offset?: number;
  /** Leaves out documents with lower scores. */
  minScore?: number;
  /** Scores only documents that match. */
  filter?: Filter;
  /** Returns the best documents of each value of this keyword field: at most groupSize of each. topK counts groups. */
  groupBy?: string;
  groupSize?: number;
  /** Fills RankedDocument.payload, with the whole payload or with these members. */
  payloads?: boolean;
  payloadFields?: readonly string[];
  /** Fills RankedDocument.matches and similarities. */
  alignments?: boolean;
  /** Divides scores by the number of query tokens. */
  normalize?: boolean;
  refinement?: Refinement;
  /** Returned as Ranking.requestId. If absent, the server makes one. */
  requestId?: string;
  /** The answer must include the write with this sequence. */
  minSequence?: Integer;
}

/** Which documents to score: ids of the collection, or documents that come with the request. Without both, the whole
 * collection. */
export interface Candidates {
  ids?: readonly Id[];
  documents?: readonly InlineDocument[];
}

export interface QueryOptions {
  query: Query;
  /** One factor per query token. */
  weights?: readonly number[];
}

export interface RerankRequest extends QueryOptions, Candidates, RankingOptions {
  /** Needed unless `documents` are given, or the server has only one collection. */
  collection?: string;
}

export interface SearchRequest extends QueryOptions, RankingOptions {
  collection?: string;
}

/** One of several queries. Its candidates replace those of the whole request. */
export interface OneQuery extends QueryOptions, Candidates {}

export interface RerankManyRequest extends Candidates, RankingOptions {
  collection?: string;
  queries: readonly OneQuery[];
  /** Number of requests in flight at a time. Default 8. */
  concurrency?: number;
}

export interface RankedDocument {
  /** Absent for documents that came with the request. */
  id?: Id;
  /** Index in `ids` or `documents` of the request. */
  position: number;
  score: number;
  payload?: JsonValue;
  /** Value of the field `groupBy`. */
  group?: string;
  /** For each query token: the document token that it matched, and their similarity. */
  matches?: number[];
  similarities?: number[];
  /** The encoder cut the end of the document's text. */
  truncated: boolean;
}

export interface Ranking {
  /** Best first. */
  documents: RankedDocument[];
  /** Ids that the collection does not have. */
  missing: Id[];
  /** Number of candidates that were left out because a device or a group of servers is lost. */
  unavailableDocuments: Integer;
  unavailableGroups: string[];
  collection: string;
  /** 0: scored without a collection. */
  generation: Integer;
  requestId: string;
  /** The last write that the answer includes; 0 unless the collection is live and was written to. */
  sequence: Integer;
  /** Texts of the query's tokens; empty unless the query is a text and alignments were asked for. */
  queryTokens: string[];
  /** The encoder cut the end of the query's text. */
  queryTruncated: boolean;
  /** Only if a scan of codes chose the documents that were scored. */
  refinement?: RefinementResult;
  timings: Timings;
}

export interface RefinementResult {
  planes: number;
  documents: Integer;
  certificate: "PROVEN" | "NOT_PROVEN";
  margin?: number;
  outsideScore?: number;
  outsideIsBound?: boolean;
}

/** Microseconds on the server. */
export interface Timings {
  encodeUs: number;
  queueUs: number;
  copyUs: number;
  kernelUs: number;
  totalUs: number;
}

/** A document to write, with either `tokens` or `text`. It replaces the document with the same id as a whole. */
export interface NewDocument {
  id: Id;
  tokens?: Vectors;
  text?: string;
  payload?: JsonObject;
  /** An older version never replaces a newer one. */
  version?: Integer;
}

export interface UpsertRequest {
  collection: string;
  documents: Iterable<NewDocument>;
  /** Largest body of a request. Default 16 MiB, the server's default of http.max_body_bytes. */
  maxBodyBytes?: number;
}

export interface WriteResult {
  outcome: "applied" | "stale" | "not_found";
  /** Absent if nothing was written. */
  sequence?: Integer;
  truncated: boolean;
}

export interface WriteResults {
  /** One per document or id, in the order of the request. */
  results: WriteResult[];
  /** For minSequence of calls that must see this write. */
  sequence: Integer;
}

export interface DeleteRequest {
  collection: string;
  ids: readonly Id[];
  version?: Integer;
}

export interface DeleteMatchingRequest {
  collection: string;
  filter: Filter;
  version?: Integer;
  minSequence?: Integer;
}

export interface DeleteSummary {
  numDeleted: number;
  numMissing: number;
  numStale: number;
  sequence: Integer;
}

export interface GetRequest {
  collection: string;
  /** Any number of ids; read with at most 1,000 per request. */
  ids: readonly Id[];
  returnTokens?: boolean;
  minSequence?: Integer;
}

export interface StoredDocument {
  id: Id;
  numTokens: number;
  payload?: JsonValue;
  /** 0: none. */
  version: Integer;
  sequence: Integer;
  /** Vectors as they are stored, one row per token. An I8 collection stores them multiplied by a fixed orthogonal
   * matrix, and quantised. */
  tokens?: Float32Array[];
}

export interface StoredDocuments {
  documents: StoredDocument[];
  missing: Id[];
  generation: Integer;
  sequence: Integer;
}

export interface ScrollRequest {
  collection: string;
  filter?: Filter;
  /** Leaves out all ids up to this one. */
  after?: Id;
  /** Documents per request, 1 to 1,000. Default 100. */
  pageSize?: number;
  /** Default true. */
  payloads?: boolean;
  returnTokens?: boolean;
  minSequence?: Integer;
}

export interface CountRequest {
  collection: string;
  filter?: Filter;
  minSequence?: Integer;
}

export interface FacetsRequest extends CountRequest {
  field: string;
  /** Number of values. Default 10. */
  limit?: number;
}

export interface Facets {
  values: { value: string; count: number }[];
  numValues: number;
  numDocuments: number;
}

export interface ExplainRequest extends QueryOptions {
  collection?: string;
  id: Id;
}

export interface Explanation {
  id: Id;
  collection: string;
  generation: Integer;
  /** Weighted sum of the largest similarity of each row, in FP64. */
  score: number;
  /** One row per query token, one column per document token; without weights. */
  similarities: number[][];
  /** Texts of the tokens; empty if they are not known. */
  queryTokens: string[];
  documentTokens: string[];
  queryTruncated: boolean;
}

export interface EncoderInfo {
  model: string;
  fingerprint: string;
  dim: number;
}

export interface CollectionInfo {
  name: string;
  state: "loading" | "ready" | "failed" | "partial";
  error?: string;
  generation?: Integer;
  dim?: number;
  storage?: "f32" | "f16" | "bf16" | "i8" | "residual1" | "residual2" | "residual4" | "residual8";
  idType?: "string" | "int64";
  numDocuments?: number;
  numTokens?: number;
  residentBytes?: number;
  residency?: string;
  codePlanes?: number;
  fields?: { name: string; kind: "keyword" | "keywords" | "integer" | "number" | "boolean" | "time"; path?: string }[];
  unavailableDocuments?: number;
  encoder?: EncoderInfo;
  /** Only of a live collection. */
  live?: LiveInfo;
  /** Members that a later server adds. */
  [name: string]: unknown;
}

export interface LiveInfo {
  sequence: Integer;
  compactedSequence: Integer;
  numChangedDocuments: number;
  numDeletedDocuments: number;
  numSegments: number;
  segmentBytes: number;
  segmentUsedBytes: number;
  logBytes: number;
  isCompacting: boolean;
  log: "local" | "nats";
  lag: number;
  /** Why nothing can be written now. */
  error?: string;
  [name: string]: unknown;
}

export interface ServerInfo {
  encoder?: EncoderInfo;
  collections: CollectionInfo[];
}

export interface Health {
  /** True if the server takes requests (/readyz answers 200). */
  ready: boolean;
  /** The server's text: the reason if it is not ready, and lost devices if it is. */
  message: string;
}
