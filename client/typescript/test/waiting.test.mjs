// Waits between attempts and timeouts, in virtual time. Tests with real connections must be in other files, because
// Node's connections use the timers that these tests replace.

import assert from "node:assert/strict";
import test from "node:test";

import { Client } from "maxsim";

import { QUERY, RANKING, refusal } from "./server.mjs";
import { fakeFetch, virtualTime } from "./virtual-time.mjs";

const URL = "http://maxsimd.test:7071";
const REQUEST = { collection: "demo", query: QUERY, ids: ["a"] };
const waitsOf = (times) => times.slice(1).map((time, i) => time - times[i]);

test("waits grow by the multiplier up to maxBackoffMs", async (t) => {
  const clock = virtualTime(t);
  const { fetch, times } = fakeFetch(clock, refusal(503, "UNAVAILABLE"));
  const retry = { maxAttempts: 5, initialBackoffMs: 20, multiplier: 3, maxBackoffMs: 100, jitter: 0 };
  await assert.rejects(new Client({ url: URL, fetch, retry }).rerank(REQUEST), { code: "UNAVAILABLE" });
  assert.deepEqual(waitsOf(times), [20, 60, 100, 100]);
});

test("the default makes seven attempts, and jitter changes each wait by up to a fifth", async (t) => {
  const clock = virtualTime(t);
  const { fetch, times } = fakeFetch(clock, refusal(503, "UNAVAILABLE"));
  await assert.rejects(new Client({ url: URL, fetch }).rerank(REQUEST), { code: "UNAVAILABLE" });
  const waits = waitsOf(times);
  assert.equal(times.length, 7);
  [50, 100, 200, 400, 800, 1600].forEach((ms, i) => assert.ok(Math.abs(waits[i] - ms) <= 0.2 * ms + 1e-6,
    `${waits[i]}`));
});

test("a retry waits for Retry-After if that is longer than the backoff", async (t) => {
  const clock = virtualTime(t);
  const busy = refusal(429, "RESOURCE_EXHAUSTED", {}, { "retry-after": "7" });
  const { fetch, times } = fakeFetch(clock, busy, refusal(503, "UNAVAILABLE", {}, { "retry-after": "0" }), RANKING);
  await new Client({ url: URL, fetch, retry: { jitter: 0 } }).rerank(REQUEST);
  assert.deepEqual(waitsOf(times), [7000, 100]);
});

test("an attempt that could not begin within the timeout is not made", async (t) => {
  const clock = virtualTime(t);
  for (const [timeoutMs, attempts] of [[2999, 1], [3000, 1], [3001, 2]]) {
    const { fetch, times } = fakeFetch(clock, refusal(503, "UNAVAILABLE", {}, { "retry-after": "3" }), RANKING);
    const call = new Client({ url: URL, fetch, timeoutMs }).rerank(REQUEST);
    const began = clock.now;
    if (attempts === 1) {
      await assert.rejects(call, { code: "UNAVAILABLE", retryAfter: 3 });
      assert.equal(clock.now, began);
    } else {
      await call;
    }
    assert.equal(times.length, attempts);
  }
});

test("a server that does not answer is DEADLINE_EXCEEDED after the timeout", async (t) => {
  const clock = virtualTime(t);
  const { fetch, times } = fakeFetch(clock, "silence");
  const client = new Client({ url: URL, fetch, timeoutMs: 50 });
  await assert.rejects(client.rerank(REQUEST), { code: "DEADLINE_EXCEEDED", message: /within 50 ms/ });
  assert.deepEqual(times, [1000]);
  assert.equal(clock.now, 1050);
});

test("the default timeout is 30 s, and one of the call replaces the client's", async (t) => {
  const clock = virtualTime(t);
  const { fetch } = fakeFetch(clock, "silence");
  await assert.rejects(new Client({ url: URL, fetch }).rerank(REQUEST), { code: "DEADLINE_EXCEEDED" });
  assert.equal(clock.now, 31_000);
  const client = new Client({ url: URL, fetch, timeoutMs: 600_000 });
  await assert.rejects(client.rerank(REQUEST, { timeoutMs: 20 }), { code: "DEADLINE_EXCEEDED" });
  assert.equal(clock.now, 31_020);
});

test("the timeout bounds all attempts together", async (t) => {
  const clock = virtualTime(t);
  const { fetch, times } = fakeFetch(clock, refusal(503, "UNAVAILABLE"), new TypeError("fetch failed"), "silence");
  const client = new Client({ url: URL, fetch, timeoutMs: 300, retry: { jitter: 0 } });
  await assert.rejects(client.rerank(REQUEST), { code: "DEADLINE_EXCEEDED" });
  assert.deepEqual(times, [1000, 1050, 1150]);
  assert.equal(clock.now, 1300);
});

test("a signal cancels a call that waits for a retry", async (t) => {
  const clock = virtualTime(t);
  const { fetch, times } = fakeFetch(clock, refusal(503, "UNAVAILABLE", {}, { "retry-after": "20" }), RANKING);
  const controller = new AbortController();
  const call = new Client({ url: URL, fetch }).rerank(REQUEST, { signal: controller.signal });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(call, { name: "AbortError" });
  assert.equal(times.length, 1);
  assert.equal(clock.now, 1100);
});
