// The heat map that explains a document's score: the similarity of every query token with every document token. The
// best document token of each query token is marked. The weighted sum of these best similarities is the score.
import { h, isTouch } from "./dom.js";
import { plural, score as scoreText, similarity } from "./format.js";
import { bestOf, levelOf, names, scaleOf, sharesOf } from "./similarities.js";

// The maximum numbers of columns and rows that are shown. More would be slow.
const MAX_COLUMNS = 512;
const MAX_ROWS = 128;
// The maximum letters of a query token's name. The style cuts longer names.
const MAX_NAME = 16;

// Returns the document's tokens as running text. Finds the beginnings of words by WordPiece's "##" or SentencePiece's
// "▁".
function runningText(tokens) {
  const marked = tokens.some((token) => token.startsWith("▁"));
  return tokens.map((token) => {
    if (marked) return { begins: token.startsWith("▁"), text: token.replaceAll("▁", "") };
    return { begins: !token.startsWith("##"), text: token.replace(/^##/, "") };
  });
}

function legend(scale) {
  const steps = [0, 0.25, 0.5, 0.75, 1];
  return h(
    "p",
    { class: "legend" },
    h(
      "span",
      { class: "scale" },
      `≤ ${similarity(scale.low)}`,
      h("span", {}, steps.map((level) => h("i", { "--level": String(level) }))),
      similarity(scale.high),
    ),
    h("span", { class: "scale" }, h("i", { class: "top" }), "best document token of the query token"),
    h("span", {}, "The sum of the best is the score."),
  );
}

class HeatMap {
  constructor(explanation) {
    this.rows = explanation.similarities.slice(0, MAX_ROWS);
    this.num_query = explanation.similarities.length;
    this.num_document = this.rows[0].length;
    this.query = names(explanation.query_tokens, this.num_query, "q");
    this.document = names(explanation.document_tokens, this.num_document, "d");
    this.named = Array.isArray(explanation.document_tokens) && this.document === explanation.document_tokens;
    this.columns = Math.min(this.num_document, MAX_COLUMNS);
    this.scale = scaleOf(this.rows);
    this.best = this.rows.map(bestOf);
    this.score = explanation.score;
    this.readout = h("p", { class: "readout", "aria-live": "off" });
    this.cells = [];
    this.words = [];
    this.focused = [0, Math.min(this.best[0], this.columns - 1)];
  }

  build() {
    const map = h("div", { class: "scroll" }, this.table());
    const parts = [this.readout, map, this.scrollHint(map), legend(this.scale)];
    const cut = [];
    if (this.columns < this.num_document) cut.push(`the first ${this.columns} of ${this.num_document} document tokens`);
    if (this.rows.length < this.num_query) cut.push(`the first ${this.rows.length} of ${this.num_query} query tokens`);
    if (cut.length > 0) parts.push(h("p", { class: "note" }, `Shown are ${cut.join(" and ")}.`));
    if (this.named) parts.push(this.text());
    this.describe(null);
    return parts;
  }

  // Makes a hint to scroll sideways, shown while the map is wider than its space.
  scrollHint(map) {
    const hint = h("p", { class: "note scroll-hint", hidden: true });
    new ResizeObserver(() => {
      hint.hidden = map.scrollWidth <= map.clientWidth;
      hint.textContent = `${isTouch() ? "Swipe" : "Scroll"} the map sideways: it has ${plural(this.columns, "column")}.`;
    }).observe(map);
    return hint;
  }

  table() {
    const head = h(
      "tr",
      {},
      h("th", { class: "corner name", scope: "col" }, h("span", { class: "visually-hidden" }, "Query token")),
      h("th", { class: "corner best", scope: "col" }, "best"),
      this.document.slice(0, this.columns).map((token) => h("th", { scope: "col" }, h("span", {}, token))),
    );
    this.columnHeads = [...head.children].slice(2);
    const body = this.rows.map((row, i) => this.row(row, i));
    const foot = h(
      "tr",
      {},
      h("th", { class: "name", scope: "row" }, "score"),
      h("td", { class: "best sum", role: "gridcell" }, scoreText(this.score)),
      h("td", { colspan: this.columns, role: "gridcell" }),
    );
    return h(
      "table",
      {
        class: "heat",
        role: "grid",
        "aria-label": "Similarities of query tokens (rows) with document tokens (columns)",
        "--columns": String(this.columns),
        "--name-letters": String(Math.min(MAX_NAME, Math.max(5, ...this.query.map((token) => token.length)))),
        "--digits": String(Math.max(...this.figures().map((figure) => figure.length))),
        // A letter of the upright names is about six pixels.
        "--head": `${Math.min(84, 12 + 6 * Math.max(...this.document.map((token) => token.length)))}px`,
        onkeydown: (event) => this.onKey(event),
        onmouseleave: () => this.describe(null),
      },
      h("colgroup", {}, h("col", { class: "names" }), h("col", { class: "bests" }), h("col", { span: this.columns })),
      h("thead", {}, head),
      h("tbody", {}, body),
      h("tfoot", {}, foot),
    );
  }

  // Returns the column of best similarities, as texts. The score comes first.
  figures() {
    return [scoreText(this.score), ...this.rows.map((row, i) => similarity(row[this.best[i]]))];
  }

  row(row, i) {
    const cells = [];
    for (let j = 0; j < this.columns; ++j) {
      const best = this.best[i] === j;
      const label = `${this.query[i]}, ${this.document[j]}: ${similarity(row[j])}${best ? ", best" : ""}`;
      cells.push(
        h("td", {
          role: "gridcell",
          class: best ? "cell top" : "cell",
          "aria-label": label,
          tabindex: i === this.focused[0] && j === this.focused[1] ? "0" : "-1",
          "--level": levelOf(row[j], this.scale).toFixed(3),
          onmouseenter: () => this.describe([i, j]),
          onfocus: () => this.moveTo(i, j),
        }),
      );
    }
    this.cells.push(cells);
    const best = row[this.best[i]];
    return h(
      "tr",
      {},
      h("th", { class: "name", scope: "row", title: this.query[i] }, this.query[i]),
      h("td", { class: "best", role: "gridcell" }, similarity(best)),
      cells,
    );
  }

  text() {
    const paragraph = h("p", { class: "shaded", "aria-label": "The document's tokens" });
    runningText(this.document).forEach((word, j) => {
      if (word.begins && j > 0) paragraph.append(" ");
      const span = h("span", { "--level": "0" }, word.text);
      this.words.push(span);
      paragraph.append(span);
    });
    return paragraph;
  }

  // Shows a cell's tokens and similarity. If `cell` is null, says how to choose one.
  describe(cell) {
    this.cells.forEach((cells, i) => cells[0].parentElement.classList.toggle("on", cell !== null && cell[0] === i));
    this.columnHeads?.forEach((head, j) => head.classList.toggle("on", cell !== null && cell[1] === j));
    this.shade(cell === null ? null : cell[0]);
    this.readout.classList.toggle("muted", cell === null);
    this.readout.classList.toggle("mono", cell !== null);
    if (cell === null) {
      const how = isTouch() ? "Tap a cell." : "Point at a cell, or use the arrow keys.";
      const lines = " The lines below the text show what each token adds to the score.";
      this.readout.textContent = this.named ? how + lines : how;
      return;
    }
    const [i, j] = cell;
    const best = this.best[i];
    this.readout.textContent =
      `${this.query[i]} × ${this.document[j]} = ${this.rows[i][j].toFixed(4)}` +
      (best === j ? " (best)" : `; best: ${this.document[best]}, ${this.rows[i][best].toFixed(4)}`);
  }

  // Shades the document's text by the similarities of one query token or, if none is chosen, by what each document
  // token adds to the score.
  shade(row) {
    if (this.words.length === 0) return;
    const levels =
      row === null
        ? sharesOf(this.rows, this.best, this.num_document)
        : this.rows[row].map((value) => levelOf(value, this.scale));
    this.words.forEach((word, j) => word.style.setProperty("--level", levels[j].toFixed(3)));
  }

  moveTo(i, j) {
    this.cells[this.focused[0]][this.focused[1]].tabIndex = -1;
    this.focused = [i, j];
    this.cells[i][j].tabIndex = 0;
    this.describe([i, j]);
  }

  onKey(event) {
    const steps = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      Home: [0, -Infinity],
      End: [0, Infinity],
    };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));
    const i = clamp(this.focused[0] + step[0], this.cells.length);
    const j = clamp(this.focused[1] + step[1], this.columns);
    this.cells[i][j].focus();
  }
}

// `explanation` is the answer of /v1/explain.
export function heatMap(explanation) {
  return new HeatMap(explanation).build();
}
