// The figures of the last ten minutes, from /v1/stats.
import { Chart } from "./charts.js";
import { byId, h } from "./dom.js";
import { bytes, duration, percent, rate } from "./format.js";

const SPAN_S = 600;

const charts = new Map();

// Adds columns of equal length.
function sum(columns) {
  if (columns.length === 0) return null;
  return columns[0].map((_, idx) => columns.reduce((total, column) => total + column[idx], 0));
}

function zeros(stats) {
  return stats.seconds.map(() => 0);
}

function withoutOk(requests) {
  return Object.entries(requests)
    .filter(([code]) => code !== "OK")
    .map(([, column]) => column);
}

// Returns the charts to draw, each as [name, function that formats values, names of the lines, values of each line].
function figures(stats) {
  const list = [
    ["Requests / s", rate, ["answered", "failed"], [stats.requests.OK, sum(withoutOk(stats.requests)) ?? zeros(stats)]],
    ["Request time", duration, ["p50", "p99"], [stats.p50_us, stats.p99_us]],
    ["Queries per batch", rate, [""], [stats.batch_queries]],
    ["Rejections / s", rate, [""], [sum(Object.values(stats.rejections)) ?? zeros(stats)]],
    ["Queued requests", rate, [""], [stats.queue_jobs]],
  ];
  for (const device of stats.devices) {
    const name = device.backend === "cpu" ? "CPU busy" : `GPU ${device.number} busy`;
    list.push([name, percent, [""], [device.busy]]);
  }
  const writes = Object.entries(stats.writes);
  if (writes.length > 0) {
    const applied = stats.writes.applied ?? zeros(stats);
    const others = sum(writes.filter(([outcome]) => outcome !== "applied").map(([, column]) => column)) ?? zeros(stats);
    list.push(["Writes / s", rate, ["applied", "not applied"], [applied, others]]);
    list.push(["Write time", duration, ["p50", "p99"], [stats.write_p50_us, stats.write_p99_us]]);
  }
  if (stats.encoder_calls.some((calls) => calls > 0)) {
    list.push(["Encoder calls / s", rate, [""], [stats.encoder_calls]]);
  }
  if (stats.encoder_cache_hit_ratio.some((ratio) => ratio !== null)) {
    list.push(["Encoder cache", percent, [""], [stats.encoder_cache_hit_ratio]]);
  }
  return list;
}

// The ages of the samples' ends in seconds, oldest first.
function ages(stats) {
  const result = new Array(stats.seconds.length);
  let age = stats.age_s ?? 0;
  for (let idx = stats.seconds.length - 1; idx >= 0; --idx) {
    result[idx] = age;
    age += stats.seconds[idx];
  }
  return result;
}

// Makes a table with the newest sample of each minute. `times` are ages in seconds.
function table(list, times) {
  const minutes = [];
  times.forEach((time, idx) => {
    minutes[Math.floor(time / 60)] = idx;
  });
  const heads = list.flatMap(([name, , lines]) => lines.map((line) => (line === "" ? name : `${name}, ${line}`)));
  const rows = [];
  minutes.forEach((idx, minute) => {
    const values = list.flatMap(([, format, , columns]) =>
      columns.map((column) => (column[idx] === null || column[idx] === undefined ? "–" : format(column[idx]))),
    );
    const when = minute === 0 ? "now" : `${minute} min ago`;
    rows.push(h("tr", {}, h("th", { scope: "row" }, when), values.map((value) => h("td", {}, value))));
  });
  return h(
    "table",
    { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "When"), heads.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows),
  );
}

function memoryCard(device) {
  const whole = device.budget_bytes ?? device.memory_bytes;
  const used = device.free_bytes === undefined ? device.collection_bytes : device.memory_bytes - device.free_bytes;
  const other = device.budget_bytes === undefined ? Math.max(0, used - device.collection_bytes) : 0;
  const width = (value) => `${whole > 0 ? Math.min(100, (100 * value) / whole) : 0}%`;
  const title = device.backend === "cpu" ? "Host" : `GPU ${device.number}`;
  const limit = device.budget_bytes === undefined ? bytes(whole) : `its budget of ${bytes(whole)}`;
  return h(
    "div",
    { class: "card" },
    h(
      "div",
      { class: "heading" },
      h("h3", { class: "fixed" }, title),
      h("p", { class: device.up ? "muted" : "error" }, device.up ? device.name : "lost"),
    ),
    h(
      "div",
      { class: "meter", "aria-hidden": "true" },
      h("span", { "--width": width(device.collection_bytes) }),
      h("span", { class: "other", "--width": width(other) }),
    ),
    h(
      "p",
      { class: "note" },
      `${bytes(device.collection_bytes)} of ${limit} in collections` +
        (device.free_bytes === undefined ? "" : ` · ${bytes(device.free_bytes)} free`),
    ),
  );
}

export function showStats(stats) {
  const list = figures(stats);
  const times = ages(stats);
  const seen = new Set();
  for (const [name, format, lines, columns] of list) {
    seen.add(name);
    if (!charts.has(name)) {
      const chart = new Chart(name, format, lines, format === percent ? 1 : undefined);
      charts.set(name, chart);
      byId("charts").append(chart.element);
    }
    charts.get(name).update(columns, times, SPAN_S);
  }
  for (const [name, chart] of charts) {
    if (seen.has(name)) continue;
    chart.element.remove();
    charts.delete(name);
  }
  byId("live-note").textContent = times.length === 0 ? "the first sample takes a few seconds" : `every ${stats.interval_s} s`;
  byId("live-table").replaceChildren(table(list, times));
  byId("devices").replaceChildren(...stats.devices.map(memoryCard));
  byId("version").textContent = stats.version;
  byId("version").title = `commit ${stats.commit}`;
}
