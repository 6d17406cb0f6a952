// The heat map of a document that is an image of a page. Each patch of the image has a vector. The map colours the
// patches by their similarities with a query token.
import { h, isTouch } from "./dom.js";
import { score as scoreText, similarity } from "./format.js";
import { heatMap } from "./heatmap.js";
import { bestOf, levelOf, names, scaleOf, sharesOf } from "./similarities.js";

const MAX_PATCHES = 4096; // each is an element of the page
const MAX_TOKENS = 128; // each has a button
const MAX_SIDE = 2048; // pixels of the canvas. An image keeps its canvas while its result is listed: at most 16 MiB.
const MAX_ADDED = 4; // tokens that the line above the page names: a second line would move the page under the pointer

// Returns {rows, columns, first, image} from a payload, or null if the payload has no valid grid. The document's
// vectors from index `first` on belong to the patches of the image, row by row (docs/use/pages.md).
export function pageOf(payload, num_vectors) {
  const { rows, columns, first } = payload?.grid ?? {};
  if (![rows, columns, first].every(Number.isInteger) || rows < 1 || columns < 1 || first < 0) return null;
  if (rows * columns > MAX_PATCHES || first + rows * columns > num_vectors) return null;
  return { rows, columns, first, image: payload.image };
}

class PageMap {
  constructor(explanation, page, bitmap, name) {
    this.explanation = explanation;
    this.page = page;
    this.size = page.rows * page.columns;
    this.rows = explanation.similarities.slice(0, MAX_TOKENS);
    this.tokens = names(explanation.query_tokens, explanation.similarities.length, "q");
    this.best = this.rows.map(bestOf);
    this.patchRows = this.rows.map((row) => row.slice(page.first, page.first + this.size));
    this.scale = scaleOf(this.patchRows);
    this.shares = sharesOf(this.rows, this.best, this.rows[0].length).slice(page.first, page.first + this.size);
    this.token = null; // the index of the chosen token; null: all of them
    this.shown = null; // the index of the patch that the line above the page describes
    this.focused = 0; // the index of the patch where the arrow keys begin
    const scale = Math.min(1, MAX_SIDE / Math.max(bitmap.width, bitmap.height));
    const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale)));
    this.canvas = h("canvas", { width, height, role: "img", "aria-label": `Image of ${name}` });
    this.canvas.getContext("2d").drawImage(bitmap, 0, 0, width, height);
    bitmap.close();
    this.readout = h("p", { class: "readout", "aria-live": "polite" });
  }

  build() {
    this.patches = Array.from({ length: this.size }, () => h("i"));
    const overlay = h(
      "div",
      {
        class: "patches",
        tabindex: "0",
        // With the role "application", screen readers pass the arrow keys on to the page, and read out the line above
        // the image.
        role: "application",
        "aria-label": "Patches of the image: move between them with the arrow keys",
        "--rows": String(this.page.rows),
        "--columns": String(this.page.columns),
        onmousemove: (event) => this.describe(this.patchAt(event)),
        onclick: (event) => this.moveTo(this.patchAt(event)),
        onmouseleave: () => this.describe(null),
        onfocus: () => this.moveTo(this.focused),
        onblur: () => this.describe(null),
        onkeydown: (event) => this.onKey(event),
      },
      this.patches,
    );
    this.overlay = overlay;
    const all = this.button("all", scoreText(this.explanation.score), null);
    const buttons = this.rows.map((row, i) => this.button(this.tokens[i], similarity(row[this.best[i]]), i));
    this.buttons = [all, ...buttons];
    const chooser = h("div", { class: "page-tokens", role: "group", "aria-label": "Query token" }, this.buttons);
    const cut = this.rows.length < this.tokens.length;
    this.choose(null);
    return [
      this.readout,
      h("div", { class: "page" }, h("div", { class: "page-image" }, this.canvas, overlay), chooser),
      cut ? h("p", { class: "note" }, `Shown are the first ${this.rows.length} of ${this.tokens.length} query tokens.`) : null,
      this.table(),
    ].filter((part) => part !== null);
  }

  // Returns the button that shows token `i` or, if `i` is null, all tokens.
  button(name, figure, i) {
    return h("button", { type: "button", onclick: () => this.choose(i) }, `${name} `, h("span", {}, figure));
  }

  // Makes the table only when a person opens it: it has thousands of cells.
  table() {
    const details = h("details", { class: "more" }, h("summary", {}, "Similarities as a table"));
    details.addEventListener("toggle", () => details.append(h("div", { class: "explanation" }, heatMap(this.explanation))), {
      once: true,
    });
    return details;
  }

  // Returns the index of the patch under the pointer.
  patchAt(event) {
    const box = this.overlay.getBoundingClientRect();
    const part = (position, size, parts) => Math.min(parts - 1, Math.max(0, Math.floor((position / size) * parts)));
    const row = part(event.clientY - box.top, box.height, this.page.rows);
    return row * this.page.columns + part(event.clientX - box.left, box.width, this.page.columns);
  }

  moveTo(idx) {
    this.focused = idx;
    this.describe(idx);
  }

  onKey(event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const { rows, columns } = this.page;
    const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));
    const row = clamp(Math.floor(this.focused / columns) + step[0], rows);
    this.moveTo(row * columns + clamp((this.focused % columns) + step[1], columns));
  }

  // Colours the patches by token `i` or, if `i` is null, by what they add to the score.
  choose(i) {
    this.token = i;
    const levels = i === null ? this.shares : this.patchRows[i].map((value) => levelOf(value, this.scale));
    const tops = new Set((i === null ? this.best : [this.best[i]]).map((column) => column - this.page.first));
    this.patches.forEach((patch, idx) => {
      patch.style.setProperty("--level", levels[idx].toFixed(3));
      patch.classList.toggle("top", tops.has(idx));
    });
    this.buttons.forEach((button, idx) => button.setAttribute("aria-pressed", String(idx === (i === null ? 0 : i + 1))));
    this.describe(null);
  }

  // Says where on the page a vector's patch is. Counts rows and columns from 1.
  place(column) {
    const idx = column - this.page.first;
    if (idx < 0 || idx >= this.size) return `vector ${column + 1}, which is no patch`;
    return `row ${Math.floor(idx / this.page.columns) + 1}, column ${(idx % this.page.columns) + 1}`;
  }

  // Outlines the patch `idx`, and says how similar it is to the chosen token or, if none is chosen, what it adds to the
  // score. If `idx` is null, says how to read the map.
  describe(idx) {
    this.patches[this.shown]?.classList.remove("on");
    this.patches[idx]?.classList.add("on");
    this.shown = idx;
    const column = idx === null ? null : idx + this.page.first;
    if (this.token !== null) {
      const i = this.token;
      const best = `best: ${this.place(this.best[i])}, ${this.rows[i][this.best[i]].toFixed(4)}`;
      this.readout.textContent =
        idx === null
          ? `${this.tokens[i]}; ${best}`
          : `${this.tokens[i]} × ${this.place(column)} = ${this.rows[i][column].toFixed(4)}; ${best}`;
    } else if (idx === null) {
      const how = isTouch() ? "Tap" : "Point at";
      this.readout.textContent = `Patches are coloured by what they add to the score. ${how} a patch, or choose a query token.`;
    } else {
      const added = this.best.flatMap((best, i) => (best === column ? [`${this.tokens[i]} ${this.rows[i][column].toFixed(4)}`] : []));
      const more = added.length > MAX_ADDED ? ` and ${added.length - MAX_ADDED} more` : "";
      const listed = added.slice(0, MAX_ADDED).join(", ") + more;
      this.readout.textContent = `${this.place(column)} adds ${listed === "" ? "nothing" : listed}`;
    }
  }
}

// Returns the elements of the heat map. `explanation` is the answer of /v1/explain, `page` the result of pageOf, and
// `name` the document's title or id. Draws the image `bitmap`, and then closes it.
export function pageMap(explanation, page, bitmap, name) {
  return new PageMap(explanation, page, bitmap, name).build();
}
