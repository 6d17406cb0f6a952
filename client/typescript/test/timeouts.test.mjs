import assert from "node:assert/strict";
import test from "node:test";

import { ArgumentError, Client } from "maxsim";

import { QUERY, RANKING, startServer } from "./server.mjs";

const REQUEST = { collection: "demo", query: QUERY, ids: ["a"] };
const silent = () => {};

test("the timeout also bounds the reading of an answer", async (t) => {
  const endless = (_request, response) => {
    response.writeHead(200);
    response.write("{");
  };
  const { url } = await startServer(t, endless);
  await assert.rejects(new Client({ url, timeoutMs: 200 }).rerank(REQUEST), { code: "DEADLINE_EXCEEDED" });
});

test("a signal cancels a call that waits for its answer, with the signal's reason", async (t) => {
  const { url } = await startServer(t, silent);
  const controller = new AbortController();
  const call = new Client(url).rerank(REQUEST, { signal: controller.signal });
  const reason = new Error("the user typed on");
  setTimeout(() => controller.abort(reason), 20);
  await assert.rejects(call, (error) => error === reason);
});

test("a signal that is aborted already sends nothing", async (t) => {
  const { url, requests } = await startServer(t, RANKING);
  await assert.rejects(new Client(url).rerank(REQUEST, { signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.equal(requests.length, 0);
});

test("timeouts and retries out of range are refused", () => {
  const url = "http://localhost:7071";
  for (const timeoutMs of [0, -1, NaN, Infinity, 2 ** 31]) {
    assert.throws(() => new Client({ url, timeoutMs }), { name: "ArgumentError", message: /timeoutMs is/ });
  }
  const wrong = [{ maxAttempts: 0 }, { maxAttempts: 1.5 }, { initialBackoffMs: 0 }, { maxBackoffMs: 1 },
    { multiplier: 0.5 },
    { multiplier: NaN }, { jitter: 1.1 }, { jitter: -1 }];
  for (const retry of wrong) {
    const [name] = Object.keys(retry);
    assert.throws(() => new Client({ url, retry }), { name: "ArgumentError", message: new RegExp(`retry.${name} is`) });
  }
  for (const wrongUrl of ["localhost:7071", "ftp://localhost", ""]) {
    assert.throws(() => new Client(wrongUrl), (error) => error instanceof ArgumentError);
  }
});
