// The collections of /v1/collections: what is served, where it lies, how much memory it takes.
import { byId, h } from "./dom.js";
import { bytes, count, plural } from "./format.js";

function figure(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

function tierText(tier) {
  const place = tier.tier === "gpu" ? `GPU ${tier.device}` : tier.tier;
  return `${plural(tier.num_shards, "shard")} in ${place}, ${bytes(tier.resident_bytes)}`;
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
      h("p", { class: state === "failed" ? "error" : "muted" }, state),
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
    collection.encoder?.model ? h("p", { class: "note" }, `made by ${collection.encoder.model}`) : null,
    collection.unavailable_documents > 0
      ? h("p", { class: "note error" }, `${count(collection.unavailable_documents)} documents are on lost devices`)
      : null,
    collection.error ? h("p", { class: "note error" }, collection.error) : null,
  );
}

export function showCollections(list) {
  const text = JSON.stringify(list);
  if (text === showCollections.shown) return;
  showCollections.shown = text;
  byId("collections").replaceChildren(
    ...(list.length > 0 ? list.map(card) : [h("p", { class: "note" }, "No collection is configured.")]),
  );
}
