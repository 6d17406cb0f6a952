// Shows the collections of /v1/collections: documents, place and memory.
import { byId, h } from "./dom.js";
import { bytes, count, plural, rate } from "./format.js";

function figure(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

function tierText(tier) {
  const place = tier.tier === "gpu" ? `GPU ${tier.device}` : tier.tier;
  return `${plural(tier.num_shards, "shard")} in ${place}, ${bytes(tier.resident_bytes)}`;
}

// When each collection's last sequence was read, and its value, for write rates.
const readings = new Map();

// Returns the writes per second of a live collection since its previous reading. Returns undefined if there is no
// previous reading, or if the sequence has become smaller because the log was begun anew.
function writeRate(name, sequence, now_ms) {
  const before = readings.get(name);
  readings.set(name, { sequence, now_ms });
  if (before === undefined || sequence < before.sequence || now_ms <= before.now_ms) return undefined;
  return (1000 * (sequence - before.sequence)) / (now_ms - before.now_ms);
}

function liveFigures(live, writes) {
  return h(
    "dl",
    { class: "live" },
    figure("sequence", count(live.sequence)),
    figure("writes / s", writes === undefined ? "–" : rate(writes)),
    figure("not compacted", count(live.sequence - live.compacted_sequence)),
    figure("segments", `${count(live.num_segments)}, ${bytes(live.segment_used_bytes)}`),
    figure("tombstones", count(live.num_deleted_documents)),
    figure("log", bytes(live.log_bytes)),
    live.log === "nats" ? figure("behind the stream", count(live.lag)) : null,
  );
}

function liveNotes(live) {
  return [
    live.is_compacting ? h("p", { class: "note" }, "A compaction runs.") : null,
    live.error ? h("p", { class: "note error" }, `No writes: ${live.error}`) : null,
  ];
}

function card(collection) {
  const served = collection.generation !== undefined;
  const state = collection.state.toLowerCase();
  return h(
    "div",
    { class: "card" },
    h(
      "div",
      { class: "heading" },
      h("h3", {}, collection.name),
      h("p", { class: state === "failed" || state === "partial" ? "fixed error" : "fixed muted" }, collection.live ? `${state}, live` : state),
    ),
    served
      ? h(
          "dl",
          {},
          figure("generation", count(collection.generation)),
          figure("documents", count(collection.num_documents)),
          figure("tokens", count(collection.num_tokens)),
          figure("vectors", `${collection.dim} × ${collection.storage}`),
          figure("ids", collection.id_type),
          figure("memory", bytes(collection.resident_bytes)),
        )
      : null,
    served ? h("p", { class: "note" }, (collection.tiers ?? []).map(tierText).join(" · ")) : null,
    collection.live ? liveFigures(collection.live, collection.writes) : null,
    collection.live ? liveNotes(collection.live) : null,
    collection.encoder?.model ? h("p", { class: "note" }, `made by ${collection.encoder.model}`) : null,
    collection.unavailable_documents > 0
      ? h("p", { class: "note error" }, `${count(collection.unavailable_documents)} documents are on lost devices`)
      : null,
    collection.error ? h("p", { class: "note error" }, collection.error) : null,
  );
}

function forgetOthers(list) {
  const names = new Set(list.map((collection) => collection.name));
  for (const name of readings.keys()) {
    if (!names.has(name)) readings.delete(name);
  }
}

export function showCollections(answer) {
  const now_ms = performance.now();
  const list = answer.map((collection) =>
    collection.live ? { ...collection, writes: writeRate(collection.name, collection.live.sequence, now_ms) } : collection,
  );
  forgetOthers(list);
  const text = JSON.stringify(list);
  if (text === showCollections.shown) return;
  showCollections.shown = text;
  byId("collections").replaceChildren(
    ...(list.length > 0 ? list.map(card) : [h("p", { class: "note" }, "No collection is configured.")]),
  );
}
