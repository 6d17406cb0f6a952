// What each method sends, and what it makes of the answer.

import assert from "node:assert/strict";
import test from "node:test";

import { Client } from "maxsim";

import { QUERY, RANKING, refusal, startServer } from "./server.mjs";

const bodyOf = (request) => JSON.parse(request.body);
const members = ({ query, ...rest }) => rest;

test("rerank sends every option under its name of the HTTP API", async (t) => {
  const { url, requests } = await startServer(t, RANKING);
  await new Client({ url: `${url}/`, token: "secret", clientId: "me", headers: { "x-more": "1" } }).rerank({
    collection: "demo", query: "why?", ids: ["a", "b"], weights: [1, 2], topK: 3, offset: 4, minScore: 0.5,
      filter: "x = 1",
    groupBy: "book", groupSize: 2, payloadFields: ["title"], alignments: true, normalize: true, requestId: "r",
      minSequence: 9,
    refinement: { documents: 5, budget: 6, requireProof: true },
  });
  const [{ method, path, headers }] = requests;
  assert.deepEqual([method, path], ["POST", "/v1/rerank"]);
  assert.equal(headers.authorization, "Bearer secret");
  assert.equal(headers["x-client-id"], "me");
  assert.equal(headers["x-more"], "1");
  assert.equal(headers["content-type"], "application/json");
  assert.deepEqual(bodyOf(requests[0]), {
    model: "demo", query: "why?", documents: ["a", "b"], query_weights: [1, 2], top_n: 3, offset: 4, min_score: 0.5,
    filter: "x = 1", group_by: "book", group_size: 2, return_documents: true, payload_fields: ["title"],
    return_alignments: true, normalize: true, refinement: { documents: 5, budget: 6, require_proof: true },
      request_id: "r",
    min_sequence: 9,
  });
});

test("without ids and documents, the whole collection is searched, for ten results", async (t) => {
  const { url, requests } = await startServer(t, RANKING);
  await new Client(url).search({ collection: "demo", query: "why?" });
  assert.deepEqual(bodyOf(requests[0]), { model: "demo", query: "why?", documents: "*", top_n: 10 });
});

test("documents of the request are texts or vectors", async (t) => {
  const { url, requests } = await startServer(t, RANKING);
  await new Client(url).rerank({ query: QUERY, documents: ["a text", QUERY] });
  const { documents } = bodyOf(requests[0]);
  assert.deepEqual(documents[0], { text: "a text" });
  assert.deepEqual(documents[1].tokens.shape, [2, 2]);
});

test("a ranking has every member of the answer", async (t) => {
  const result = { id: 7, index: 1, relevance_score: 2.5, document: { title: "x" }, group: "g", truncated: true,
    alignment: { document_tokens: [3], similarities: [0.5] } };
  const body = { ...RANKING.body, results: [result], missing: ["z"], unavailable_documents: 2,
    unavailable_groups: ["g1"],
    sequence: 4, query_tokens: ["why"], query_truncated: true,
    refinement: { planes: 2, documents: 9, certificate: "PROVEN", outside_score: 1.5, outside_is_bound: true } };
  const { url } = await startServer(t, { body });
  assert.deepEqual(await new Client(url).rerank({ collection: "demo", query: QUERY, payloads: true }), {
    documents: [{ position: 1, score: 2.5, truncated: true, id: 7, payload: { title: "x" }, group: "g", matches: [3],
      similarities: [0.5] }],
    missing: ["z"], unavailableDocuments: 2, unavailableGroups: ["g1"], collection: "demo", generation: 1,
    requestId: "request", sequence: 4, queryTokens: ["why"], queryTruncated: true, timings: { totalUs: 10.5 },
    refinement: { planes: 2, documents: 9, certificate: "PROVEN", outsideScore: 1.5, outsideIsBound: true },
  });
});

test("rerankMany keeps the order of the queries, and no more requests than `concurrency` are in flight", async (t) => {
  let inFlight = 0;
  let most = 0;
  const handler = (request, response) => {
    most = Math.max(most, ++inFlight);
    setTimeout(() => {
      inFlight--;
      response.end(JSON.stringify(RANKING.body));
    }, 5);
  };
  const { url, requests } = await startServer(t, handler);
  const queries = Array.from({ length: 7 }, (_, i) => ({ query: `query ${i}`,
    ...(i === 2 ? { documents: ["own"] } : {}) }));
  const rankings = await new Client(url).rerankMany({ collection: "demo", queries, ids: ["a"], topK: 2,
    concurrency: 3 });
  assert.equal(rankings.length, 7);
  assert.ok(most <= 3 && most >= 1, `${most} requests in flight`);
  const bodies = requests.map(bodyOf).sort((a, b) => (a.query < b.query ? -1 : 1));
  assert.deepEqual(bodies.map((one) => one.query), queries.map((one) => one.query));
  assert.deepEqual(members(bodies[0]), { model: "demo", documents: ["a"], top_n: 2 });
  assert.deepEqual(members(bodies[2]), { model: "demo", documents: [{ text: "own" }], top_n: 2 });
});

test("an error of rerankMany says which query failed, and ends the call", async (t) => {
  const handler = (request, response) => {
    const isWrong = requests[requests.length - 1].body.includes("wrong");
    response.writeHead(isWrong ? 400 : 200);
    response.end(JSON.stringify(isWrong ? refusal(0, "INVALID_ARGUMENT", { field: "query" }).body : RANKING.body));
  };
  const { url, requests } = await startServer(t, handler);
  const queries = [{ query: "a" }, { query: "wrong" }, { query: "b" }, { query: "c" }];
  const call = new Client(url).rerankMany({ collection: "demo", queries, concurrency: 1 });
  await assert.rejects(call, { code: "INVALID_ARGUMENT", field: "query", queryIndex: 1 });
  assert.equal(requests.length, 2);
  const local = new Client(url).rerankMany({ collection: "demo", queries: [{ query: "a" }, { query: [] }],
    concurrency: 1 });
  await assert.rejects(local, { name: "ArgumentError", message: /^queries\[1\]: query has no vectors/ });
});

test("a signal cancels rerankMany with its reason", async (t) => {
  const controller = new AbortController();
  const reason = new Error("enough");
  const { url } = await startServer(t, () => controller.abort(reason));
  const call = new Client(url).rerankMany({ queries: [{ query: "a" }, { query: "b" }] }, { signal: controller.signal });
  await assert.rejects(call, (error) => error === reason);
});

test("upsert splits documents by bytes, and locates an error in the whole call", async (t) => {
  const written = (_request, response) => {
    const { documents } = bodyOf(requests[requests.length - 1]);
    const results = documents.map(() => ({ outcome: "applied", sequence: requests.length }));
    response.end(JSON.stringify({ results, sequence: requests.length }));
  };
  const refused = refusal(400, "INVALID_ARGUMENT", { field: "documents[1].payload" });
  const { url, requests } = await startServer(t, written, written, refused);
  const client = new Client(url);
  const documents = Array.from({ length: 4 }, (_, i) => ({ id: `${i}`, text: "é".repeat(20) }));
  // A document, {"id":"0","text":"éé..."}, takes 20 bytes and 40 bytes of text, and two with the comma take 121.
  const maxBodyBytes = 121 + '{"documents":[]}'.length;
  const results = await client.upsert({ collection: "notes", documents, maxBodyBytes });
  assert.equal(requests.length, 2);
  for (const { body } of requests) assert.ok(Buffer.byteLength(body) <= maxBodyBytes, `${Buffer.byteLength(body)}`);
  assert.deepEqual(requests.map((one) => bodyOf(one).documents.length), [2, 2]);
  assert.equal(Buffer.byteLength(requests[0].body), maxBodyBytes);
  assert.equal(results.results.length, 4);
  assert.equal(results.sequence, 2);
  requests.length = 1; // The next two calls get the answers `written` and `refused`.
  await assert.rejects(client.upsert({ collection: "notes", documents, maxBodyBytes }),
    { field: "documents[3].payload" });
});

test("upsert sends at most 10,000 documents in a request", async (t) => {
  const { url, requests } = await startServer(t, { body: { results: [], sequence: 1 } });
  function* documents() {
    for (let id = 0; id < 10_001; id++) yield { id, text: "a" };
  }
  await new Client(url).upsert({ collection: "notes", documents: documents() });
  assert.deepEqual(requests.map((one) => bodyOf(one).documents.length), [10_000, 1]);
});

test("delete with a filter is repeated until no more documents match", async (t) => {
  const answer = (numDeleted, hasMore, sequence) => ({
    body: { num_deleted: numDeleted, num_missing: 1, num_stale: 2, has_more: hasMore, sequence },
  });
  const { url, requests } = await startServer(t, answer(10, true, 5), answer(3, false, 6));
  const sum = await new Client(url).delete({ collection: "notes", filter: "year < 2000", version: 7 });
  assert.deepEqual(sum, { numDeleted: 13, numMissing: 2, numStale: 4, sequence: 6 });
  assert.deepEqual(requests.map(bodyOf), [{ filter: "year < 2000", version: 7 },
    { filter: "year < 2000", version: 7, min_sequence: 5 }]);
  assert.deepEqual(requests.map((one) => one.method), ["DELETE", "DELETE"]);
});

test("an error of a delete with a filter counts what was deleted, also by failed attempts", async (t) => {
  const first = { body: { num_deleted: 10, num_missing: 0, num_stale: 0, has_more: true, sequence: 5 } };
  const partly = refusal(503, "UNAVAILABLE", { reason: "PARTLY_DELETED", num_deleted: 4 });
  const { url } = await startServer(t, first, partly, refusal(400, "INVALID_ARGUMENT"));
  const client = new Client({ url, retry: { initialBackoffMs: 1 } });
  const expected = { code: "INVALID_ARGUMENT", reason: "PARTLY_DELETED", numDeleted: 14 };
  await assert.rejects(client.delete({ collection: "notes", filter: "year < 2000" }), expected);
});

test("get reads at most 1,000 ids per request", async (t) => {
  const { url, requests } = await startServer(t, { body: { documents: [{ id: "a", num_tokens: 1 }], missing: ["b"],
    generation: 1 } });
  const ids = Array.from({ length: 1001 }, (_, i) => `${i}`);
  const found = await new Client(url).get({ collection: "notes", ids });
  assert.deepEqual(requests.map((one) => bodyOf(one).ids.length), [1000, 1]);
  assert.deepEqual(found.missing, ["b", "b"]);
  assert.deepEqual(found.documents[1], { id: "a", numTokens: 1, version: 0, sequence: 0 });
});

test("scroll reads the next page when the loop needs it", async (t) => {
  const page = (ids, hasMore) => ({ body: { documents: ids.map((id) => ({ id, num_tokens: 1 })), has_more: hasMore,
    generation: 1 } });
  const { url, requests } = await startServer(t, page(["a", "b"], true), page(["c"], false));
  const ids = [];
  for await (const { id } of new Client(url).scroll({ collection: "notes", pageSize: 2, filter: "x = 1" })) {
    if (id === "b") assert.equal(requests.length, 1);
    ids.push(id);
  }
  assert.deepEqual(ids, ["a", "b", "c"]);
  assert.deepEqual(bodyOf(requests[1]), { filter: "x = 1", after: "b", limit: 2, return_payloads: true });
});

test("info has the collections with the client's names", async (t) => {
  const collection = { name: "demo", state: "READY", num_documents: 2, id_type: "string",
    live: { log_bytes: 5, is_compacting: false } };
  const { url } = await startServer(t, { body: { collections: [collection] } });
  assert.deepEqual(await new Client(url).info(), {
    collections: [{ name: "demo", state: "ready", numDocuments: 2, idType: "string",
      live: { logBytes: 5, isCompacting: false } }],
  });
});

test("health tells a server that is not ready from one that cannot be reached, and asks once", async (t) => {
  const { url, requests } = await startServer(t, { status: 503, body: "loading demo\n" }, { body: "ok\n" },
    { status: 404 });
  const client = new Client(url);
  assert.deepEqual(await client.health(), { ready: false, message: "loading demo" });
  assert.deepEqual(await client.health(), { ready: true, message: "ok" });
  await assert.rejects(client.health(), { code: "UNKNOWN", status: 404 });
  assert.equal(requests.length, 3);
  await assert.rejects(new Client("http://127.0.0.1:1").health(), { code: "UNAVAILABLE" });
});
