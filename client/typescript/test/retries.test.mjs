import assert from "node:assert/strict";
import test from "node:test";

import { Client, MaxsimError } from "maxsim";

import { QUERY, RANKING, refusal, startServer } from "./server.mjs";

const FAST = { initialBackoffMs: 1, jitter: 0 };
const REQUEST = { collection: "demo", query: QUERY, ids: ["a"] };

test("UNAVAILABLE is retried until the server answers", async (t) => {
  const { url, requests } = await startServer(t, refusal(503, "UNAVAILABLE"), refusal(503, "UNAVAILABLE"), RANKING);
  const { documents } = await new Client({ url, retry: FAST }).rerank(REQUEST);
  assert.equal(documents[0].id, "a");
  assert.equal(requests.length, 3);
  assert.equal(requests[2].body, requests[0].body);
});

for (const [status, code] of [[429, "RESOURCE_EXHAUSTED"], [400, "INVALID_ARGUMENT"], [500, "INTERNAL"],
  [504, "DEADLINE_EXCEEDED"]]) {
  test(`${code} without Retry-After is final`, async (t) => {
    const { url, requests } = await startServer(t, refusal(status, code));
    await assert.rejects(new Client({ url, retry: FAST }).rerank(REQUEST), { code, status });
    assert.equal(requests.length, 1);
  });
}

test("INVALID_ARGUMENT with Retry-After is final", async (t) => {
  const { url, requests } = await startServer(t, refusal(400, "INVALID_ARGUMENT", {}, { "retry-after": "0" }));
  await assert.rejects(new Client({ url, retry: FAST }).rerank(REQUEST), { code: "INVALID_ARGUMENT" });
  assert.equal(requests.length, 1);
});

test("maxAttempts counts the first attempt", async (t) => {
  for (const maxAttempts of [1, 2, 3]) {
    const { url, requests } = await startServer(t, refusal(503, "UNAVAILABLE"));
    const client = new Client({ url, retry: { ...FAST, maxAttempts } });
    await assert.rejects(client.rerank(REQUEST), { code: "UNAVAILABLE" });
    assert.equal(requests.length, maxAttempts);
  }
});

test("a server that cannot be reached is UNAVAILABLE, and the message names it", async () => {
  const client = new Client({ url: "http://127.0.0.1:1", retry: { maxAttempts: 1 } });
  await assert.rejects(client.info(), (error) => {
    assert.ok(error instanceof MaxsimError);
    assert.equal(error.code, "UNAVAILABLE");
    assert.equal(error.status, undefined);
    assert.match(error.message, /http:\/\/127\.0\.0\.1:1/);
    return true;
  });
});

test("a connection that breaks within the answer is retried", async (t) => {
  const half = (_request, response) => {
    response.writeHead(200, { "content-length": "1000" });
    response.write("{");
    setTimeout(() => response.destroy(), 10);
  };
  const { url, requests } = await startServer(t, half, RANKING);
  await new Client({ url, retry: FAST }).rerank(REQUEST);
  assert.equal(requests.length, 2);
});

test("redirects are not followed, so that no token goes elsewhere", async (t) => {
  const other = await startServer(t, RANKING);
  const { url } = await startServer(t, { status: 307, headers: { location: `${other.url}/v1/rerank` } });
  const client = new Client({ url, token: "secret", retry: { maxAttempts: 1 } });
  await assert.rejects(client.rerank(REQUEST), { code: "UNAVAILABLE" });
  assert.equal(other.requests.length, 0);
});
