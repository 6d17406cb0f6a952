// Ids, integers, vectors and payloads reach the server, and come back, without a change.

import assert from "node:assert/strict";
import test from "node:test";

import { Client } from "maxsim";

import { QUERY, RANKING, startServer } from "./server.mjs";

const decode = ({ data }) => Array.from(new Float32Array(new Uint8Array(Buffer.from(data, "base64")).buffer));
const encode = (array) => Buffer.from(array.buffer).toString("base64");

test("integers beyond 2^53 are sent and read exactly", async (t) => {
  const answer = RANKING.body.results[0];
  const body = JSON.stringify({ ...RANKING.body, results: [answer] })
    .replace('"a"', "9223372036854775807")
    .replace('"generation":1', '"generation":1,"sequence":18446744073709551615,"missing":[ -9223372036854775808, 7]');
  const { url, requests } = await startServer(t, { body });
  const ids = [9223372036854775807n, 7, 9007199254740991];
  const ranking = await new Client(url).rerank({ collection: "n", query: QUERY, ids, minSequence: 2n ** 60n });
  assert.match(requests[0].body, /"documents":\[9223372036854775807,7,9007199254740991\]/);
  assert.match(requests[0].body, /"min_sequence":1152921504606846976[,}]/);
  assert.equal(ranking.documents[0].id, 9223372036854775807n);
  assert.equal(ranking.sequence, 18446744073709551615n);
  assert.deepEqual(ranking.missing, [-9223372036854775808n, 7]);
});

test("integers around 2^53 become bigints only beyond it", async (t) => {
  const missing = "9007199254740990,9007199254740991,9007199254740992,-9007199254740991,-9007199254740992";
  const body = `{"documents":[],"missing":[${missing}],"generation":1,"sequence":2}`;
  const { url } = await startServer(t, { body });
  const found = await new Client(url).get({ collection: "n", ids: [1] });
  assert.deepEqual(found.missing, [
    9007199254740990, 9007199254740991, 9007199254740992n, -9007199254740991, -9007199254740992n,
  ]);
});

test("strings that look like integers stay strings beside a large integer", async (t) => {
  const payload = { "9223372036854775807": "i1", text: 'a "quoted\\" 9223372036854775807, ', s: "s",
    "k\\\": 1": "\u0001é", x: 1e300 };
  const document = `{"id":9223372036854775807,"num_tokens":1,"payload":${JSON.stringify(payload)}}`;
  const body = `{"documents":[${document}],"generation":1}`;
  const { url } = await startServer(t, { body });
  const { documents } = await new Client(url).get({ collection: "n", ids: [1] });
  assert.equal(documents[0].id, 9223372036854775807n);
  assert.deepEqual(documents[0].payload, payload);
});

test("a long string beside a large integer is read", async (t) => {
  const text = "x".repeat(20_000_000);
  const body = `{"documents":[{"id":9223372036854775807,"num_tokens":1,"payload":{"text":"${text}"}}],"generation":1}`;
  const { url } = await startServer(t, { body });
  const { documents } = await new Client(url).get({ collection: "n", ids: [1] });
  assert.equal(documents[0].payload.text.length, text.length);
});

test("numbers that were rounded already are refused as ids and versions", async (t) => {
  const { url, requests } = await startServer(t, RANKING);
  const client = new Client(url);
  const wrong = { name: "ArgumentError" };
  await assert.rejects(client.rerank({ collection: "n", query: QUERY, ids: [1, 2 ** 53] }),
    { ...wrong, message: /^ids\[1\] is/ });
  await assert.rejects(client.get({ collection: "n", ids: [1.5] }), { ...wrong, message: /^ids\[0\] is 1.5/ });
  const document = { id: 1, tokens: QUERY, version: 2 ** 53 };
  await assert.rejects(client.upsert({ collection: "n", documents: [document] }),
    { ...wrong, message: /^documents\[0\].version/ });
  assert.equal(requests.length, 0);
});

test("vectors of every form are sent as the same FP32 matrix", async (t) => {
  const { url, requests } = await startServer(t, RANKING);
  const flat = new Float32Array([9, 1, 0.1, 0, -2, 9]).subarray(1, 5);
  const forms = [
    [[1, 0.1], [0, -2]],
    [new Float32Array([1, 0.1]), new Float32Array([0, -2])],
    [flat.subarray(0, 2), flat.subarray(2, 4)],
    { data: flat, dims: [2, 2] },
    { data: [1, 0.1, 0, -2], dims: [1, 2, 2] },
  ];
  for (const query of forms) await new Client(url).rerank({ collection: "n", query, ids: ["a"] });
  for (const { body } of requests) {
    const { query } = JSON.parse(body);
    assert.deepEqual({ ...query, data: decode(query) }, { dtype: "f32", shape: [2, 2],
      data: [1, Math.fround(0.1), 0, -2] });
  }
  assert.equal(requests.length, forms.length);
});

test("vectors without rows, or with rows of different lengths, are refused", async () => {
  const client = new Client("http://127.0.0.1:1");
  const wrong = [[[], /^query has no vectors/], [[[]], /^query\[0\] has 0 values/],
    [[[1, 2], [3]], /^query\[1\] has 1 values/],
    [[1, 2], /^query\[0\]/], [{ data: [1, 2, 3], dims: [2, 2] }, /^query.dims is \[2, 2\] with 3 values/],
    [{ data: [], dims: [0, 8] }, /^query has no vectors/], [{ data: [1, 2], dims: [2] }, /^query.dims/],
    [{ data: [1, 2, 3, 4], dims: [2, 2, 1] }, /^query.dims/]];
  for (const [query, message] of wrong) {
    await assert.rejects(client.rerank({ collection: "n", query, ids: ["a"] }), { name: "ArgumentError", message });
  }
});

test("stored vectors of every storage type are read as FP32", async (t) => {
  const values = [1.5, -2, 0, 0.25];
  const f32 = new Float32Array(values);
  const bf16 = Uint16Array.from(new Uint32Array(f32.slice().buffer), (word) => word >> 16);
  const f16 = new Uint16Array([0x3e00, 0xc000, 0, 0x3400]);
  const i8 = new Int8Array([6, -8, 0, 1]);
  const stored = [["f32", f32], ["F32", f32], ["bf16", bf16], ["f16", f16], ["i8", i8]];
  const documents = stored.map(([dtype, array], i) => ({
    id: i,
    num_tokens: 2,
    tokens: { dtype, shape: [2, 2], data: encode(array) },
    ...(dtype === "i8" ? { scale: 0.25 } : {}),
  }));
  const { url } = await startServer(t, { body: { documents, generation: 1 } });
  const found = await new Client(url).get({ collection: "n", ids: [1], returnTokens: true });
  for (const { id, tokens } of found.documents) {
    assert.deepEqual(tokens.map((row) => Array.from(row)), [[1.5, -2], [0, 0.25]], stored[id][0]);
  }
});

test("special values of FP16 are read", async (t) => {
  const halves = new Uint16Array([0x0001, 0x03ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x8000]);
  const tokens = { dtype: "f16", shape: [1, 8], data: encode(halves) };
  const { url } = await startServer(t, { body: { documents: [{ id: 1, num_tokens: 1, tokens }], generation: 1 } });
  const { documents } = await new Client(url).get({ collection: "n", ids: [1], returnTokens: true });
  const expected = [2 ** -24, 1023 * 2 ** -24, 2 ** -14, 65504, Infinity, -Infinity, NaN, -0];
  assert.deepEqual(Array.from(documents[0].tokens[0]), expected);
});

test("a payload keeps its members, and a value that JSON lacks is refused by its path", async (t) => {
  const { url, requests } = await startServer(t, { body: { results: [{ outcome: "applied", sequence: 3 }],
    sequence: 3 } });
  const client = new Client(url);
  const payload = { title: "é \u2028", list: [1n << 62n, null, true, { at: new Date(0) }], none: undefined };
  const documents = [{ id: "a", text: "words", payload, version: 1n << 63n }];
  await client.upsert({ collection: "a/b", documents });
  assert.equal(requests[0].path, "/v1/collections/a%2Fb/documents");
  assert.match(requests[0].body, /"list":\[4611686018427387904,null,true,\{"at":"1970-01-01T00:00:00.000Z"\}\]\}/);
  assert.match(requests[0].body, /"version":9223372036854775808\}/);
  await assert.rejects(client.upsert({ collection: "a", documents: [{ id: "a", text: "b",
    payload: { x: [1, NaN] } }] }), {
    name: "ArgumentError",
    message: /^documents\[0\]\.payload\.x\[1\] is NaN/,
  });
});
