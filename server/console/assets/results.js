// Shows ranked documents, their scores and, on request, their heat maps.
import { integerId, post } from "./api.js";
import { h } from "./dom.js";
import { score as scoreText } from "./format.js";
import { heatMap } from "./heatmap.js";
import { decodeImage } from "./image.js";
import { pageMap, pageOf } from "./page.js";

const TITLES = ["title", "name", "headline", "subject"];
const TEXTS = ["text", "body", "content", "passage", "abstract", "contents", "description"];
const LONGEST_FIELD = 80;

function firstText(payload, members) {
  const member = members.find((name) => typeof payload[name] === "string" && payload[name] !== "");
  return member === undefined ? null : { member, text: payload[member] };
}

// Returns a payload's short members, without its title, text and id.
function otherFields(payload, taken) {
  const fields = [];
  for (const [name, value] of Object.entries(payload)) {
    if (taken.includes(name) || name === "id" || (typeof value === "object" && value !== null)) continue;
    const text = String(value);
    if (text.length <= LONGEST_FIELD) fields.push(h("span", {}, `${name}: ${text}`));
  }
  return fields;
}

class Result {
  constructor(entry, rank, best, question) {
    this.entry = entry;
    this.rank = rank;
    this.best = best;
    this.question = question;
    this.explanation = null;
  }

  build() {
    const payload = this.entry.document ?? {};
    const title = firstText(payload, TITLES);
    const text = firstText(payload, TEXTS);
    const panelId = `why-${this.rank}`;
    this.button = h(
      "button",
      { type: "button", class: "why", "aria-expanded": "false", "aria-controls": panelId, onclick: () => this.toggle() },
    );
    this.name = title?.text ?? String(this.entry.id);
    this.nameButton(false);
    this.panel = h("div", { class: "explanation", id: panelId, hidden: true });
    const width = this.best > 0 ? Math.max(0, this.entry.relevance_score / this.best) * 100 : 0;
    return h(
      "li",
      { class: "result" },
      h("span", { class: "rank" }, String(this.rank)),
      h(
        "div",
        {},
        h("h3", {}, title?.text ?? String(this.entry.id)),
        text === null ? null : h("p", { class: "text" }, text.text),
        h(
          "p",
          { class: "meta" },
          h("span", { class: "mono" }, String(this.entry.id)),
          otherFields(payload, [title?.member, text?.member]),
        ),
      ),
      h(
        "div",
        { class: "score" },
        h("output", { "aria-label": "Score" }, scoreText(this.entry.relevance_score)),
        h("div", { class: "score-bar", "aria-hidden": "true" }, h("span", { "--width": `${width}%` })),
        this.button,
      ),
      this.panel,
    );
  }

  // Sets the text of the button "Why". Every result has this button, so a hidden part of the text tells screen readers
  // the document's name.
  nameButton(open) {
    const rest = open ? ` why ${this.name} has rank ${this.rank}` : ` does ${this.name} have rank ${this.rank}`;
    this.button.replaceChildren(open ? "Hide" : "Why", h("span", { class: "visually-hidden" }, rest));
  }

  async toggle() {
    const open = this.panel.hidden;
    this.panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    this.nameButton(open);
    if (!open || this.explanation !== null) return;
    this.panel.replaceChildren(h("p", { class: "note" }, "Computing the similarities…"));
    try {
      this.explanation = await post("/v1/explain", {
        model: this.question.model,
        query: this.question.query,
        id: this.question.id_type === "int64" ? integerId(String(this.entry.id)) : this.entry.id,
      });
      this.explanation.query_tokens ??= this.question.tokens;
      this.panel.replaceChildren(...(await this.explained()));
    } catch (error) {
      this.panel.replaceChildren(h("p", { class: "note error", role: "alert" }, error.message));
    }
  }

  // Returns the heat map: over the image if the payload has one, else a table.
  async explained() {
    const page = pageOf(this.entry.document, this.explanation.similarities[0].length);
    const bitmap = page === null ? null : await decodeImage(page.image);
    return bitmap === null ? heatMap(this.explanation) : pageMap(this.explanation, page, bitmap, this.name);
  }
}

// Returns the list items of the results. `question` is {model, id_type, query, tokens}: what was asked, and the names
// of its tokens if they are known.
export function resultItems(results, question) {
  const best = results.length > 0 ? results[0].relevance_score : 0;
  return results.map((entry, idx) => new Result(entry, idx + 1, best, question).build());
}
