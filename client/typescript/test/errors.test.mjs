import assert from "node:assert/strict";
import test from "node:test";

import { ArgumentError, Client, MaxsimError } from "maxsim";

import { RANKING, refusal, startServer } from "./server.mjs";

const REQUEST = { collection: "demo", query: "why?", ids: ["a"] };
const ONCE = { maxAttempts: 1 };

test("an error has every detail of the answer", async (t) => {
  const details = { field: "top_n", reason: "LIMIT_EXCEEDED", limit: 1024, limit_key: "limits.max_top_k",
    num_deleted: 3 };
  const { url } = await startServer(t, refusal(429, "RESOURCE_EXHAUSTED", details, { "retry-after": "2" }));
  await assert.rejects(new Client({ url, retry: ONCE }).rerank(REQUEST), (error) => {
    assert.ok(error instanceof MaxsimError && error instanceof Error);
    const { code, status, message, field, reason, limit, limitKey, numDeleted, retryAfter } = error;
    assert.deepEqual({ code, status, message, field, reason, limit, limitKey, numDeleted, retryAfter }, {
      code: "RESOURCE_EXHAUSTED", status: 429, message: "refused: RESOURCE_EXHAUSTED", field: "top_n",
        reason: "LIMIT_EXCEEDED",
      limit: 1024, limitKey: "limits.max_top_k", numDeleted: 3, retryAfter: 2,
    });
    return true;
  });
});

test("details that do not apply are absent", async (t) => {
  const { url } = await startServer(t, refusal(404, "NOT_FOUND"));
  await assert.rejects(new Client(url).info(), (error) => {
    for (const name of ["field", "reason", "limit", "limitKey", "retryAfter", "numDeleted", "queryIndex"]) {
      assert.equal(name in error, false, name);
    }
    return true;
  });
});

test("Retry-After may be a date, as some proxies send it", async (t) => {
  const date = new Date(Date.now() + 3600_000).toUTCString();
  const { url } = await startServer(t, { status: 503, headers: { "retry-after": date } });
  await assert.rejects(new Client({ url, retry: ONCE }).info(), ({ retryAfter }) => retryAfter > 3000
    && retryAfter <= 3600);
});

for (const [status, code] of [[401, "UNAUTHENTICATED"], [403, "PERMISSION_DENIED"], [404, "NOT_FOUND"],
  [413, "INVALID_ARGUMENT"],
  [429, "RESOURCE_EXHAUSTED"], [502, "UNAVAILABLE"], [504, "DEADLINE_EXCEEDED"], [418, "UNKNOWN"]]) {
  test(`status ${status} of a proxy, without an error of maxsimd, is ${code}`, async (t) => {
    for (const body of ["<html>sorry</html>", "", "null", '{"error":"text"}', "[1]"]) {
      const { url } = await startServer(t, { status, body });
      await assert.rejects(new Client({ url, retry: ONCE }).info(), { code, status });
    }
  });
}

test("an answer that is not JSON is INTERNAL, and is not retried", async (t) => {
  const { url, requests } = await startServer(t, { body: "<html>hello</html>" });
  await assert.rejects(new Client(url).info(), { code: "INTERNAL", message: /not JSON; is this the HTTP port/ });
  assert.equal(requests.length, 1);
});

test("a token may be a function, which is called before each attempt", async (t) => {
  const { url, requests } = await startServer(t, refusal(503, "UNAVAILABLE"), RANKING);
  let calls = 0;
  await new Client({ url, token: async () => `token${++calls}`, retry: { initialBackoffMs: 1 } }).rerank(REQUEST);
  assert.deepEqual(requests.map(({ headers }) => headers.authorization), ["Bearer token1", "Bearer token2"]);
});

test("a token that cannot be sent is refused without showing it", async () => {
  const url = "http://127.0.0.1:1";
  for (const token of ["", "sec ret", "secret\n", "sécret"]) {
    const check = (error) => error instanceof ArgumentError && /^token is empty/.test(error.message)
      && !error.message.includes("ret\n");
    assert.throws(() => new Client({ url, token }), check);
    await assert.rejects(new Client({ url, token: () => token }).info(), check);
  }
  assert.throws(() => new Client({ url, headers: { "x-a": "a\nb" } }),
    { name: "ArgumentError", message: /^headers.x-a/ });
});

test("wrong arguments are refused before anything is sent", async (t) => {
  const { url, requests } = await startServer(t, RANKING);
  const client = new Client(url);
  const wrong = [
    [client.rerank({ query: "a", ids: ["a"], documents: ["b"] }), /^ids and documents are both given/],
    [client.rerank({ query: "a", documents: [] }), /^documents is empty/],
    [client.rerankMany({ queries: [] }), /^queries is empty/],
    [client.rerankMany({ queries: [{ query: "a" }], concurrency: 0 }), /^concurrency is 0/],
    [client.upsert({ collection: "a", documents: [] }), /^documents is empty/],
    [client.upsert({ collection: "a", documents: [{ id: "a" }] }), /^documents\[0\] has neither/],
    [client.upsert({ collection: "a", documents: [{ id: "a", text: "", tokens: [[1]] }] }), /^documents\[0\] has both/],
    [client.upsert({ collection: "", documents: [{ id: "a", text: "b" }] }), /^collection is ""/],
    [client.delete({ collection: "a", ids: [] }), /^ids is empty/],
    [client.delete({ collection: "a" }), /^ids and filter are absent/],
    [client.get({ collection: "a", ids: [] }), /^ids is empty/],
    [client.rerank({ query: "a", minScore: NaN }), /^min_score is NaN/],
  ];
  for (const [call, message] of wrong) await assert.rejects(call, { name: "ArgumentError", message });
  assert.equal(requests.length, 0);
});
