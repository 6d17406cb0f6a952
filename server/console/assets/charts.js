// Small charts of the last ten minutes, drawn by hand in SVG: one or two lines over a common axis from zero.
import { h, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 44;

function ago(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  const minutes = Math.floor(seconds / 60);
  return `${minutes} min ${Math.round(seconds - 60 * minutes)} s ago`;
}

// A chart of series over the samples' times. It is made once and given new values by update().
export class Chart {
  // `name` is the caption; `format` writes a value; `series` are the names of one or two lines. The axis ends at
  // `top`, or without one at the largest value.
  constructor(name, format, series, top) {
    this.name = name;
    this.format = format;
    this.series = series;
    this.fixed_top = top;
    this.value = h("p", { class: "value" });
    this.peak = h("span", {});
    this.keys = h("p", { class: "keys" });
    this.lines = series.map((_, idx) => svg("path", { class: idx === 0 ? "line" : "line second" }));
    this.cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" });
    this.picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      svg("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
      this.lines,
      this.cursor,
    );
    this.picture.addEventListener("pointermove", (event) => this.point(event));
    this.picture.addEventListener("pointerleave", () => this.unpoint());
    this.element = h(
      "figure",
      { class: "chart" },
      h("figcaption", {}, h("span", {}, name), this.peak),
      this.value,
      this.picture,
      this.keys,
    );
    this.columns = [];
    this.times = [];
  }

  // `columns` has a column for each series; `times` are the samples' ages in seconds, oldest first; `span` is the
  // axis' length in seconds.
  update(columns, times, span) {
    this.columns = columns;
    this.times = times;
    this.span = span;
    const known = columns.flat().filter((value) => value !== null && value !== undefined);
    const largest = Math.max(...known, 0);
    this.top = this.fixed_top ?? largest;
    this.lines.forEach((line, idx) => line.setAttribute("d", this.path(columns[idx] ?? [])));
    this.peak.textContent = largest > 0 ? `max ${this.format(largest)}` : "";
    this.unpoint();
    const now = this.latest();
    const said = this.series.map((name, idx) => `${name} ${now[idx]}`.trim()).join(", ");
    this.picture.setAttribute("aria-label", `${this.name}: now ${said}. Largest in ten minutes ${this.format(largest)}.`);
  }

  x(age) {
    return WIDTH * (1 - age / this.span);
  }

  path(column) {
    let text = "";
    let drawing = false;
    column.forEach((value, idx) => {
      if (value === null || value === undefined) {
        drawing = false;
        return;
      }
      const y = this.top > 0 ? HEIGHT - 1 - (HEIGHT - 3) * (value / this.top) : HEIGHT - 1;
      const alone = !drawing && (column[idx + 1] === null || column[idx + 1] === undefined);
      text += `${drawing ? "L" : "M"}${this.x(this.times[idx]).toFixed(1)} ${y.toFixed(1)}`;
      // A value between two gaps would not be seen as a line without length.
      if (alone) text += "h2";
      drawing = true;
    });
    return text;
  }

  text(column, idx) {
    const value = column?.[idx];
    return value === null || value === undefined ? "–" : this.format(value);
  }

  latest() {
    return this.columns.map((column) => this.text(column, column.length - 1));
  }

  show(values, when) {
    if (this.series.length === 1) {
      this.value.textContent = values[0] ?? "–";
      this.keys.replaceChildren(when);
      return;
    }
    this.value.replaceChildren(
      ...values.flatMap((value, idx) => [idx > 0 ? h("small", {}, " / ") : "", value]),
    );
    this.keys.replaceChildren(
      ...this.series.flatMap((name, idx) => [idx > 0 ? " / " : "", h("b", { class: idx > 0 ? "second" : "" }, name)]),
      when === "" ? "" : ` · ${when}`,
    );
  }

  point(event) {
    if (this.times.length === 0) return;
    const box = this.picture.getBoundingClientRect();
    const age = this.span * (1 - (event.clientX - box.left) / box.width);
    let nearest = 0;
    this.times.forEach((time, idx) => {
      if (Math.abs(time - age) < Math.abs(this.times[nearest] - age)) nearest = idx;
    });
    const x = this.x(this.times[nearest]);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.cursor.setAttribute("visibility", "visible");
    this.show(
      this.columns.map((column) => this.text(column, nearest)),
      ago(this.times[nearest]),
    );
  }

  unpoint() {
    this.cursor.setAttribute("visibility", "hidden");
    this.show(this.latest(), "");
  }
}
