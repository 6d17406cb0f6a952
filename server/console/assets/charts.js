// Small charts of the last ten minutes, in SVG. Their axis starts at zero.
import { h, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 44;
const MINUTE_S = 60;
const TICKS_S = 300;

function ago(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  const minutes = Math.floor(seconds / 60);
  return `${minutes} min ${Math.round(seconds - 60 * minutes)} s ago`;
}

function isKnown(value) {
  return value !== null && value !== undefined;
}

// A chart of one or two series. Made once; update() gives it new values.
export class Chart {
  // `name` is the caption; `format` writes a value; `series` are the names of one or two lines. The vertical axis
  // ends at `top` or, if that is not given, at the largest value.
  constructor(name, format, series, top) {
    this.name = name;
    this.format = format;
    this.series = series;
    this.fixed_top = top;
    this.values = series.map(() => h("dd", {}));
    this.scale = h("p", { class: "scale" });
    this.axis = h("p", { class: "axis", "aria-hidden": "true" });
    this.lines = series.map((_, idx) => svg("path", { class: idx === 0 ? "line" : "line second" }));
    this.gaps = series.map((_, idx) => svg("path", { class: idx === 0 ? "gap" : "gap second" }));
    this.dots = series.map((_, idx) => svg("path", { class: idx === 0 ? "dots" : "dots second" }));
    this.ticks = svg("path", { class: "base" });
    this.cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" });
    this.picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      this.ticks,
      this.gaps,
      this.lines,
      this.dots,
      this.cursor,
    );
    this.picture.addEventListener("pointermove", (event) => this.point(event));
    this.picture.addEventListener("pointerleave", () => this.unpoint());
    this.element = h(
      "figure",
      { class: "chart" },
      h("figcaption", {}, name),
      h("dl", { class: "values" }, series.map((line, idx) => h("div", {}, this.key(line, idx), this.values[idx]))),
      this.scale,
      this.picture,
      this.axis,
    );
    this.columns = [];
    this.times = [];
  }

  // A single line needs no key: the caption names it.
  key(line, idx) {
    return h("dt", { class: this.series.length === 1 ? "visually-hidden" : idx > 0 ? "second" : null }, line || this.name);
  }

  // Redraws the chart. `columns` has one list of values per series, `times` are the ages of the samples in seconds,
  // oldest first, and `span` is the length of the time axis in seconds.
  update(columns, times, span) {
    this.columns = columns;
    this.times = times;
    this.span = span;
    const known = columns.flat().filter(isKnown);
    const largest = Math.max(...known, 0);
    this.top = this.fixed_top ?? largest;
    columns.forEach((column, idx) => {
      const paths = this.paths(column);
      this.lines[idx].setAttribute("d", paths.line);
      this.gaps[idx].setAttribute("d", paths.gap);
      this.dots[idx].setAttribute("d", paths.dots);
    });
    this.peak = largest > 0 ? `max ${this.format(largest)}` : "";
    this.drawAxis();
    this.unpoint();
    const now = this.latest();
    const said = this.series.map((name, idx) => `${name} ${now[idx]}`.trim()).join(", ");
    this.picture.setAttribute("aria-label", `${this.name}: now ${said}. Largest in ten minutes ${this.format(largest)}.`);
  }

  x(age) {
    return WIDTH * (1 - age / this.span);
  }

  // Returns SVG path data in three parts. `line` joins neighbouring samples that have a value, `gap` bridges samples
  // without a value, and `dots` marks values without a neighbour. Percentiles of a server with few requests need all
  // three, because most samples have no value.
  paths(column) {
    const paths = { line: "", gap: "", dots: "" };
    let before = null;
    column.forEach((value, idx) => {
      if (!isKnown(value)) return;
      const y = this.top > 0 ? HEIGHT - 1 - (HEIGHT - 3) * (value / this.top) : HEIGHT - 1;
      const at = `${this.x(this.times[idx]).toFixed(1)} ${y.toFixed(1)}`;
      const joins = isKnown(column[idx - 1]);
      paths.line += `${joins ? "L" : "M"}${at}`;
      if (!joins && before !== null) paths.gap += `M${before}L${at}`;
      if (!joins && !isKnown(column[idx + 1])) paths.dots += `M${at}h0`;
      before = at;
    });
    return paths;
  }

  // Draws the time axis, with a tick and a label at both ends and in the middle.
  drawAxis() {
    const ages = [];
    for (let age = this.span; age >= 0; age -= TICKS_S) ages.push(age);
    const ticks = ages.map((age) => `M${this.x(age).toFixed(1)} ${HEIGHT}v-5`);
    this.ticks.setAttribute("d", `M0 ${HEIGHT}H${WIDTH}${ticks.join("")}`);
    const labels = ages.map((age) => (age === 0 ? "now" : `−${age / MINUTE_S} min`));
    if (this.axis.textContent === labels.join("")) return;
    this.axis.replaceChildren(...labels.map((label) => h("span", {}, label)));
  }

  text(column, idx) {
    const value = column?.[idx];
    return isKnown(value) ? this.format(value) : "–";
  }

  latest() {
    return this.columns.map((column) => this.text(column, column.length - 1));
  }

  // Shows the values of one sample, and `note` beside them: the sample's age or, if no sample is pointed at, the
  // largest value.
  show(values, note) {
    this.values.forEach((element, idx) => {
      element.textContent = values[idx] ?? "–";
    });
    this.scale.textContent = note;
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
    this.show(this.latest(), this.peak ?? "");
  }
}
