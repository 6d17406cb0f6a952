import { readDeleted, readExplanation, readFacets, readInfo, readRanking, readStored, readWrites } from "./answers.js";
import { ArgumentError, MaxsimError } from "./errors.js";
import {
  bodyOf,
  checkCollection,
  checkId,
  checkIds,
  checkInteger,
  explainBody,
  rerankBody,
  upsertBodies,
} from "./requests.js";
import { Transport, type CallOptions, type ClientOptions } from "./transport.js";
import type {
  CountRequest,
  DeleteMatchingRequest,
  DeleteRequest,
  DeleteSummary,
  ExplainRequest,
  Explanation,
  Facets,
  FacetsRequest,
  GetRequest,
  Health,
  Ranking,
  RerankManyRequest,
  RerankRequest,
  ScrollRequest,
  SearchRequest,
  ServerInfo,
  StoredDocument,
  StoredDocuments,
  UpsertRequest,
  WriteResults,
} from "./types.js";

const MAX_IDS_PER_GET = 1000;

/** Calls a server over HTTP. Any number of calls may run at a time. There is nothing to close.
 *
 * A method rejects with ArgumentError if an argument is wrong, with MaxsimError if the call failed, and with the reason
 * of options.signal if that was aborted. A method that makes several requests gives each of them the whole timeout. */
export class Client {
  private readonly transport: Transport;

  /** Opens no connection. Throws ArgumentError if an option is wrong. */
  constructor(options: ClientOptions | string) {
    this.transport = new Transport(typeof options === "string" ? { url: options } : options);
  }

  /** Ranks documents by their MaxSim score: `ids` of the collection, `documents` of the request, or without both the
   * whole collection. */
  async rerank(request: RerankRequest, options?: CallOptions): Promise<Ranking> {
    const wantsPayloads = Boolean(request.payloads) || request.payloadFields !== undefined;
    return readRanking(await this.transport.call("POST", "/v1/rerank", rerankBody(request), options), wantsPayloads);
  }

  /** Searches the whole collection, with a text or with token vectors. */
  async search(request: SearchRequest, options?: CallOptions): Promise<Ranking> {
    return this.rerank(request, options);
  }

  /** Ranks documents for several queries. Makes one request per query, `concurrency` of them at a time, because the
   * HTTP API takes one query per request. Returns the rankings in the order of the queries. If a request fails,
   * cancels the others and rejects with its error, whose queryIndex is the index of the query. */
  async rerankMany(request: RerankManyRequest, options: CallOptions = {}): Promise<Ranking[]> {
    const { queries, concurrency = 8, ids, documents, ...shared } = request;
    if (queries.length === 0) throw new ArgumentError("queries is empty; must have at least one query");
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new ArgumentError(`concurrency is ${concurrency}; must be an integer of 1 or more`);
    }
    const common = { ...(ids && { ids }), ...(documents && { documents }) };
    const controller = new AbortController();
    const abort = () => controller.abort(options.signal?.reason);
    options.signal?.addEventListener("abort", abort, { once: true });
    if (options.signal?.aborted) abort();
    const rankings: Ranking[] = [];
    const failures: unknown[] = [];
    let next = 0;
    const work = async () => {
      for (let i = next++; i < queries.length && failures.length === 0; i = next++) {
        const own = queries[i] as (typeof queries)[number];
        const candidates = own.ids === undefined && own.documents === undefined ? common : {};
        try {
          rankings[i] = await this.rerank(
            { ...shared, ...candidates, ...own },
            { ...options, signal: controller.signal },
          );
        } catch (error) {
          failures.push(located(error, i));
          controller.abort();
        }
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(concurrency, queries.length) }, work));
    } finally {
      options.signal?.removeEventListener("abort", abort);
    }
    if (failures.length > 0) throw failures[0];
    return rankings;
  }

  /** Adds documents to a live collection. Resolves when they are on the server's disk and every later request sees
   * them. More than 10,000 documents or maxBodyBytes are sent in several requests, one after another. If one fails,
   * those before it have been written. */
  async upsert(request: UpsertRequest, options?: CallOptions): Promise<WriteResults> {
    const path = documentsPath(request.collection);
    const written: WriteResults = { results: [], sequence: 0 };
    for (const batch of upsertBodies(request.documents, request.maxBodyBytes)) {
      try {
        const { results, sequence } = readWrites(await this.transport.call("PUT", path, batch.body, options));
        for (const one of results) written.results.push(one);
        written.sequence = sequence;
      } catch (error) {
        throw inBatch(error, batch.first);
      }
    }
    return written;
  }

  /** Deletes documents of a live collection by their ids, or all that match a filter. A filter may match more documents
   * than one request deletes: the request is then repeated until no more documents match. An error has `numDeleted`. */
  delete(request: DeleteRequest, options?: CallOptions): Promise<WriteResults>;
  delete(request: DeleteMatchingRequest, options?: CallOptions): Promise<DeleteSummary>;
  async delete(
    request: DeleteRequest | DeleteMatchingRequest,
    options?: CallOptions,
  ): Promise<WriteResults | DeleteSummary> {
    const path = documentsPath(request.collection);
    const version = checkInteger(request.version, "version");
    if ("ids" in request) {
      const body = bodyOf({ ids: checkIds(request.ids), version });
      return readWrites(await this.transport.call("DELETE", path, body, options));
    }
    if (request.filter === undefined) throw new ArgumentError("ids and filter are absent; must have one of them");
    return this.deleteMatching(path, request, options);
  }

  private async deleteMatching(path: string, request: DeleteMatchingRequest, options?: CallOptions) {
    const { filter, version } = request;
    const sum: DeleteSummary = { numDeleted: 0, numMissing: 0, numStale: 0, sequence: 0 };
    let minSequence = checkInteger(request.minSequence, "minSequence");
    const count = (error: MaxsimError) => {
      sum.numDeleted += error.numDeleted ?? 0;
    };
    for (;;) {
      const body = bodyOf({ filter, version, min_sequence: minSequence });
      try {
        const { hasMore, ...one } = readDeleted(await this.transport.call("DELETE", path, body, options, count));
        sum.numDeleted += one.numDeleted;
        sum.numMissing += one.numMissing;
        sum.numStale += one.numStale;
        sum.sequence = one.sequence;
        if (!hasMore) return sum;
        if (one.numDeleted + one.numMissing + one.numStale === 0) {
          throw new MaxsimError("INTERNAL", "the server deleted nothing, and says that more documents match");
        }
        minSequence = one.sequence;
      } catch (error) {
        if (!(error instanceof MaxsimError) || sum.numDeleted === 0) throw error;
        throw error.with({ reason: "PARTLY_DELETED", numDeleted: sum.numDeleted });
      }
    }
  }

  /** Reads documents as they are stored, of any collection. */
  async get(request: GetRequest, options?: CallOptions): Promise<StoredDocuments> {
    const path = documentsPath(request.collection, "/get");
    const ids = checkIds(request.ids);
    const minSequence = checkInteger(request.minSequence, "minSequence");
    const members = { return_tokens: request.returnTokens, min_sequence: minSequence };
    const all: StoredDocuments = { documents: [], missing: [], generation: 0, sequence: 0 };
    for (let i = 0; i < ids.length; i += MAX_IDS_PER_GET) {
      const body = bodyOf({ ids: ids.slice(i, i + MAX_IDS_PER_GET), ...members });
      const { documents, missing, generation, sequence } = readStored(
        await this.transport.call("POST", path, body, options),
      );
      all.documents.push(...documents);
      all.missing.push(...missing);
      Object.assign(all, { generation, sequence });
    }
    return all;
  }

  /** Yields the documents of a collection, or those that match a filter, in the order of their ids. Reads pages as the
   * loop needs them; the timeout is that of one page. */
  async *scroll(request: ScrollRequest, options?: CallOptions): AsyncGenerator<StoredDocument, void, undefined> {
    const path = documentsPath(request.collection, "/scroll");
    let after = request.after;
    for (;;) {
      const body = bodyOf({
        filter: request.filter,
        after: after === undefined ? undefined : checkId(after, "after"),
        limit: request.pageSize,
        return_payloads: request.payloads ?? true,
        return_tokens: request.returnTokens,
        min_sequence: checkInteger(request.minSequence, "minSequence"),
      });
      const page = readStored(await this.transport.call("POST", path, body, options));
      yield* page.documents;
      const last = page.documents[page.documents.length - 1];
      if (!page.hasMore || last === undefined) return;
      after = last.id;
    }
  }

  /** Returns how many documents match a filter, or are in the collection. */
  async count(request: CountRequest, options?: CallOptions): Promise<number> {
    const { collection, filter, minSequence } = request;
    const body = bodyOf({ collection, filter, min_sequence: checkInteger(minSequence, "minSequence") });
    return ((await this.transport.call("POST", "/v1/count", body, options)) as { count: number }).count;
  }

  /** Returns the most frequent values of a keyword field. */
  async facets(request: FacetsRequest, options?: CallOptions): Promise<Facets> {
    const { collection, filter, field, limit, minSequence } = request;
    const body = bodyOf({ collection, filter, field, limit, min_sequence: checkInteger(minSequence, "minSequence") });
    return readFacets(await this.transport.call("POST", "/v1/facets", body, options));
  }

  /** Returns every similarity of one query's tokens with one document's. */
  async explain(request: ExplainRequest, options?: CallOptions): Promise<Explanation> {
    return readExplanation(await this.transport.call("POST", "/v1/explain", explainBody(request), options));
  }

  /** Returns the encoder and the collections. */
  async info(options?: CallOptions): Promise<ServerInfo> {
    return readInfo(await this.transport.call("GET", "/v1/collections", undefined, options));
  }

  /** Asks once whether the server takes requests. Rejects only if there is no answer, or an unexpected one. */
  async health(options?: CallOptions): Promise<Health> {
    const { status, body } = await this.transport.once("GET", "/readyz", options);
    if (status !== 200 && status !== 503) {
      throw new MaxsimError("UNKNOWN", `/readyz answered with HTTP status ${status}`, { status });
    }
    return { ready: status === 200, message: String(body).trim() };
  }
}

function documentsPath(collection: string, call = ""): string {
  return `/v1/collections/${encodeURIComponent(checkCollection(collection))}/documents${call}`;
}

function located(error: unknown, queryIndex: number): unknown {
  if (error instanceof MaxsimError) return error.with({ queryIndex });
  return error instanceof ArgumentError ? new ArgumentError(`queries[${queryIndex}]: ${error.message}`) : error;
}

/** Replaces the index of a document within its request, in the error's field, by its index in the whole upsert. */
function inBatch(error: unknown, first: number): unknown {
  if (!(error instanceof MaxsimError) || first === 0 || error.field === undefined) return error;
  return error.with({ field: error.field.replace(/^documents\[(\d+)\]/, (_, i) => `documents[${Number(i) + first}]`) });
}
