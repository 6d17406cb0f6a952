// The bar that shows where the time of an answer went.
import { h } from "./dom.js";
import { duration } from "./format.js";

const STAGES = [
  ["encode", "encode_us", "The encoder turned the text into vectors"],
  ["queue", "queue_us", "From admission to the start of the batch"],
  ["copy", "copy_us", "Transfers of the batch"],
  ["kernel", "kernel_us", "Scoring and selection of the batch"],
];

export function timingsBar(timings, seen_us) {
  const total = timings.total_us;
  const parts = STAGES.map(([name, member, title]) => ({ name, title, us: timings[member] ?? 0 }));
  const known = parts.reduce((sum, part) => sum + part.us, 0);
  parts.push({
    name: "rest",
    title: "Reading the request, resolving ids, writing the answer",
    us: Math.max(0, total - known),
  });
  const shown = parts.filter((part) => part.us > 0 || part.name !== "encode");
  const color = (part) => ({ "--stage": `var(--${part.name})` });
  const entry = (part) =>
    h(
      "div",
      { title: part.title, ...color(part) },
      h("dt", {}, part.name),
      h("dd", { class: "number" }, duration(part.us)),
    );
  return h(
    "div",
    { class: "timings" },
    h(
      "div",
      { class: "timings-bar", "aria-hidden": "true" },
      shown
        .filter((part) => part.us > 0)
        .map((part) => h("span", { "--share": String(part.us), title: `${part.name}: ${part.title}`, ...color(part) })),
    ),
    h(
      "dl",
      { "aria-label": "Where the time went" },
      shown.map(entry),
      h(
        "div",
        { class: "total", title: "From the call's arrival at the server to its answer" },
        h("dt", {}, "total"),
        h("dd", { class: "number" }, duration(total)),
      ),
      h(
        "div",
        { class: "total", title: "As this browser measured it, with the network and JSON" },
        h("dt", {}, "in the browser"),
        h("dd", { class: "number" }, duration(seen_us)),
      ),
    ),
  );
}
