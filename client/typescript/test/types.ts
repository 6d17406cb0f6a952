// Compiled, never run: what a program may write, and what the compiler must refuse.

import {
  ArgumentError,
  Client,
  MaxsimError,
  type CollectionInfo,
  type DeleteSummary,
  type ErrorCode,
  type Id,
  type Ranking,
  type StoredDocument,
  type WriteResults,
} from "maxsim";
import { nodeFetch } from "maxsim/node";

export async function accepted(client: Client, signal: AbortSignal): Promise<void> {
  new Client("http://localhost:7071");
  new Client({ url: "https://localhost", token: async () => "t", retry: { maxAttempts: 1 },
    fetch: nodeFetch({ ca: "pem" }) });
  const rows: number[][] = [[1, 2]];
  const typed: Float32Array[] = [new Float32Array(2)];
  const tensor = { data: new Float32Array(4), dims: [1, 2, 2], type: "float32" };
  const ranking: Ranking = await client.rerank({ collection: "a", query: rows, ids: ["a", 1, 2n] },
    { signal, timeoutMs: 5 });
  await client.rerank({ query: typed, documents: ["text", rows, tensor] });
  await client.search({ query: tensor, filter: { field: "lang", equals: "en" } });
  const many: Ranking[] = await client.rerankMany({ queries: [{ query: "a" },
    { query: rows, ids: [1], weights: [1] }] });
  const id: Id | undefined = ranking.documents[0]?.id ?? many[0]?.missing[0];
  const written: WriteResults = await client.upsert({ collection: "a",
    documents: [{ id: "a", tokens: rows, payload: { a: [1n] } }] });
  const byIds: WriteResults = await client.delete({ collection: "a", ids: ["a"] });
  const byFilter: DeleteSummary = await client.delete({ collection: "a", filter: "x = 1",
    minSequence: written.sequence });
  for await (const document of client.scroll({ collection: "a" })) {
    const one: StoredDocument = document;
    const rowsOfOne: Float32Array[] | undefined = one.tokens;
    void rowsOfOne;
  }
  const collection: CollectionInfo | undefined = (await client.info()).collections[0];
  const ready: boolean = (await client.health()).ready;
  try {
    await client.explain({ id: 1, query: "why" });
  } catch (error) {
    if (error instanceof MaxsimError) {
      const code: ErrorCode = error.code;
      const seconds: number | undefined = error.retryAfter;
      void [code, seconds];
    } else if (error instanceof ArgumentError) {
      const message: string = error.message;
      void message;
    }
  }
  void [id, byIds.results[0]?.outcome, byFilter.numDeleted, collection?.live?.lag, ready];
}

export async function refused(client: Client): Promise<void> {
  // @ts-expect-error: a URL is needed
  new Client({});
  // @ts-expect-error: a query is needed
  await client.rerank({ collection: "a" });
  // @ts-expect-error: one row is not a matrix
  await client.rerank({ query: [1, 2] });
  // @ts-expect-error: an option that does not exist
  await client.rerank({ query: "a", top_k: 3 });
  // @ts-expect-error: an id is no object
  await client.get({ collection: "a", ids: [{}] });
  // @ts-expect-error: neither ids nor a filter
  await client.delete({ collection: "a" });
  // @ts-expect-error: search takes no ids
  await client.search({ query: "a", ids: ["a"] });
  // @ts-expect-error: a function is no payload
  await client.upsert({ collection: "a", documents: [{ id: "a", text: "b", payload: { x: () => 1 } }] });
  // @ts-expect-error: the score is a number
  const score: string = (await client.search({ query: "a" })).documents[0]?.score;
  void score;
}
