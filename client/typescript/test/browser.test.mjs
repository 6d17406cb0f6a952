// The client where there is no Buffer, as in browsers.

import assert from "node:assert/strict";
import test from "node:test";

const { Buffer } = globalThis;
globalThis.Buffer = undefined; // before the client looks for it
const { Client } = await import("maxsim");
globalThis.Buffer = Buffer;

test("vectors are sent and read without Buffer", async () => {
  const values = Float32Array.from({ length: 40_000 }, (_, i) => Math.fround(i / 7)); // more than one part of base64
  const bodies = [];
  const fetch = async (_url, { body }) => {
    bodies.push(JSON.parse(body));
    const tokens = { dtype: "f32", shape: [2, 20_000], data: Buffer.from(values.buffer).toString("base64") };
    return new Response(JSON.stringify({ documents: [{ id: 1, num_tokens: 2, tokens }], results: [], generation: 1 }));
  };
  const client = new Client({ url: "http://maxsimd.test", fetch });
  const documents = [{ id: 1, tokens: { data: values, dims: [2, 20_000] } }];
  await client.upsert({ collection: "notes", documents });
  assert.equal(bodies[0].documents[0].tokens.data, Buffer.from(values.buffer).toString("base64"));
  const found = await client.get({ collection: "notes", ids: [1], returnTokens: true });
  assert.deepEqual(found.documents[0].tokens, [values.subarray(0, 20_000), values.subarray(20_000)]);
});
