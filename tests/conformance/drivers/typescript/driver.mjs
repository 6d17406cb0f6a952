// Runs the calls of the conformance suite with the TypeScript client (docs/internals/conformance.md).
//
// node driver.mjs FOLDER SERVER=GRPC_ADDRESS,HTTP_URL...      FOLDER: that of the client's compiled index.js

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, ...servers] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(resolve(folder, file)).href);
const { ArgumentError, Client, MaxsimError } = await load("index.js");
const { nodeFetch } = await load("node.js");
const { parseJson, toJson } = await load("json.js");

const ADDRESSES = new Map(servers.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf(",") + 1)]));
const clients = new Map();

/** Returns the client with these options, the same one in every call. */
function clientOf(options) {
  const key = toJson(options);
  if (!clients.has(key)) clients.set(key, new Client(clientOptions(options)));
  return clients.get(key);
}

function clientOptions(options) {
  const retry = { maxAttempts: options.max_attempts, jitter: 0 };
  if (options.backoff_ms !== undefined) retry.initialBackoffMs = options.backoff_ms;
  const secure = options.tls || options.ca_file !== undefined;
  const url = ADDRESSES.get(options.server);
  const made = { url: secure ? url : url.replace(/^https:/, "http:"), retry };
  if (options.token !== undefined) made.token = options.token;
  if (options.timeout_ms !== undefined) made.timeoutMs = options.timeout_ms;
  if (options.ca_file !== undefined) made.fetch = nodeFetch({ ca: readFileSync(options.ca_file) });
  return made;
}

/** Returns the arguments of a ranking with the client's names. A collection that is null is left out. */
function inCamelCase(given) {
  const renamed = Object.entries(given).map(([name, value]) => [
    name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()),
    value,
  ]);
  return Object.fromEntries(renamed.filter(([name, value]) => !(name === "collection" && value === null)));
}

/** Returns the number of arrays around the first value. Null stands for an array. */
function depthOf(value) {
  if (!Array.isArray(value) || value.length === 0) return value === null ? 1 : 0;
  return 1 + depthOf(value[0]);
}

const METHODS = {
  rerank: async (client, given) => rankingOf(await client.rerank(inCamelCase(given))),
  search: async (client, given) => rankingOf(await client.search(inCamelCase(given))),

  async rerank_many(client, given) {
    const { queries, ...shared } = inCamelCase(given);
    const asked = queries.map((query) => ({ query }));
    for (const [name, depth] of [["ids", 2], ["documents", 4], ["weights", 1]]) {
      if (shared[name] === undefined) continue;
      const isPerQuery = depthOf(shared[name]) >= depth;
      if (isPerQuery || name === "weights") {
        asked.forEach((one, i) => {
          const own = isPerQuery ? shared[name][i] : shared[name];
          if (own !== null) one[name] = own;
        });
        delete shared[name];
      }
    }
    return { rankings: (await client.rerankMany({ ...shared, queries: asked })).map(rankingOf) };
  },

  upsert: (client, given) => client.upsert(given),

  async delete(client, given) {
    const done = await client.delete(inCamelCase(given));
    if ("results" in done) return done;
    const { numDeleted, numMissing, numStale, sequence } = done;
    return { num_deleted: numDeleted, num_missing: numMissing, num_stale: numStale, sequence };
  },

  async get(client, given) {
    const { documents, missing } = await client.get(inCamelCase(given));
    return { documents: documents.map(storedOf), missing };
  },

  async scroll(client, given) {
    const documents = [];
    for await (const one of client.scroll(inCamelCase(given))) documents.push(storedOf(one));
    return { documents };
  },

  count: async (client, given) => ({ count: await client.count(inCamelCase(given)) }),

  async facets(client, given) {
    const { values, numValues, numDocuments } = await client.facets(inCamelCase(given));
    const pairs = values.map(({ value, count }) => [value, count]);
    return { values: pairs, num_values: numValues, num_documents: numDocuments };
  },

  async explain(client, given) {
    const { score, similarities, queryTokens } = await client.explain(inCamelCase(given));
    return { score, similarities, query_tokens: queryTokens };
  },

  async info(client) {
    const { collections, ...rest } = await client.info();
    return inSnakeCase({ ...rest, collections: collections.map((one) => ({ ...one, live: one.live !== undefined })) });
  },

  health: async (client) => ({ status: (await client.health()).ready ? "SERVING" : "NOT_SERVING" }),
};

function rankingOf({ documents, missing, sequence, queryTokens, queryTruncated }) {
  return { documents, missing, sequence, query_tokens: queryTokens, query_truncated: queryTruncated };
}

function storedOf({ numTokens, tokens, ...document }) {
  const rows = tokens === undefined ? {} : { tokens: tokens.map((row) => Array.from(row)) };
  return { ...document, num_tokens: numTokens, ...rows };
}

function inSnakeCase(value) {
  if (Array.isArray(value)) return value.map(inSnakeCase);
  if (typeof value !== "object" || value === null) return value;
  const renamed = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [renamed(name), inSnakeCase(one)]));
}

/** Returns the members of a driver's answer for an error. */
function errorOf(error) {
  if (error instanceof ArgumentError) return { code: "INVALID_ARGUMENT", local: true, message: error.message };
  if (!(error instanceof MaxsimError)) throw error;
  const { code, field, reason, message, limit, limitKey, retryAfter } = error;
  const waits = retryAfter === undefined ? undefined : Math.round(retryAfter * 1000);
  return { code, field, reason, message, limit, limit_key: limitKey, retry_after_ms: waits };
}

/** Replaces {"int64": "123"} by the integer. */
function withIntegers(value) {
  if (Array.isArray(value)) return value.map(withIntegers);
  if (typeof value !== "object" || value === null) return value;
  const names = Object.keys(value);
  if (names.length === 1 && names[0] === "int64") return BigInt(value.int64);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withIntegers(one)]));
}

async function answer(line) {
  const { client, method, arguments: given } = withIntegers(parseJson(line));
  if (METHODS[method] === undefined) return { unsupported: `this driver has no ${method}` };
  try {
    return { result: await METHODS[method](clientOf(client), given) };
  } catch (error) {
    return { error: errorOf(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${toJson(await answer(line))}\n`);
}
process.exit(0); // Connections that are kept open would keep the program running.
