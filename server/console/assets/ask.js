// The form for a question: a text if the server has an encoder, else recorded.
import { integerId, post } from "./api.js";
import { byId, h, isTouch } from "./dom.js";
import { count, duration, plural, score as scoreText } from "./format.js";
import { loadQuestions, questionsOf } from "./questions.js";
import { resultItems } from "./results.js";
import { timingsBar } from "./timings.js";

let collections = [];
let encoder = null; // of the server, or null
let asked = 0; // number of the last question; answers to earlier ones are dropped
let chosen = false; // whether the collection was chosen by hand

function selected() {
  return collections.find((collection) => collection.name === byId("collection").value);
}

// Returns whether a question can be asked as text. For this the server must have an encoder whose vectors have the
// collection's dimension, or a dimension that is not known yet.
function takesTexts(collection) {
  return encoder !== null && (!encoder.dim || encoder.dim === collection?.dim);
}

function note(collection, questions) {
  if (collection === undefined) return "No collection is ready.";
  const parts = [];
  if (encoder === null) {
    parts.push("This server has no encoder (encoder.url): it takes only questions that come with their vectors.");
  } else if (!takesTexts(collection)) {
    parts.push(`The encoder makes vectors of ${encoder.dim} dimensions, and this collection has ${collection.dim}.`);
  } else {
    return "";
  }
  if (questions.length === 0) {
    parts.push(`Load a file of recorded questions (dimension ${collection.dim}) below.`);
  }
  return parts.join(" ");
}

function canBeAsked(collection) {
  return takesTexts(collection) || questionsOf(collection.dim).length > 0;
}

// Selects the first collection that can be asked, unless a person has chosen one.
function selectDefault() {
  if (chosen || selected() === undefined || canBeAsked(selected())) return;
  const fitting = collections.find(canBeAsked);
  if (fitting !== undefined) byId("collection").value = fitting.name;
}

const EXAMPLE_VALUES = { boolean: "true", integer: "1", number: "0.5", time: '"2026-01-02T00:00:00Z"' };

// Shows the filter's field, with an example, if the collection declares fields.
function refreshFilter(collection) {
  const fields = collection?.fields ?? [];
  byId("filter-field").hidden = fields.length === 0;
  if (fields.length === 0) return;
  const first = fields[0];
  byId("filter-example").textContent = `${first.name} = ${EXAMPLE_VALUES[first.kind] ?? '"…"'}`;
  byId("filter-fields").textContent = `Fields: ${fields.map((field) => `${field.name} (${field.kind})`).join(", ")}.`;
}

export function refreshForm() {
  selectDefault();
  const collection = selected();
  const questions = collection === undefined ? [] : questionsOf(collection.dim);
  const texts = takesTexts(collection);
  refreshFilter(collection);
  byId("text-field").hidden = !texts;
  byId("recorded-field").hidden = questions.length === 0;
  byId("ask-note").textContent = note(collection, questions);
  byId("ask-note").hidden = byId("ask-note").textContent === "";
  const recorded = byId("recorded");
  const before = recorded.value;
  recorded.replaceChildren(
    ...(texts ? [h("option", { value: "" }, "Choose one, or write your own above")] : []),
    ...questions.map((question, idx) => h("option", { value: String(idx) }, question.text)),
  );
  if ([...recorded.options].some((option) => option.value === before)) recorded.value = before;
  byId("ask-button").disabled = collection === undefined || (!texts && questions.length === 0);
}

// Takes the list of /v1/collections.
export function setCollections(list, serverEncoder) {
  const ready = list.filter((collection) => collection.generation !== undefined);
  const known = JSON.stringify([ready.map((one) => [one.name, one.dim, one.id_type, one.fields]), serverEncoder]);
  if (known === setCollections.known) return;
  setCollections.known = known;
  collections = ready;
  encoder = serverEncoder ?? null;
  const select = byId("collection");
  const before = select.value;
  select.replaceChildren(...ready.map((collection) => h("option", { value: collection.name }, collection.name)));
  if (ready.some((collection) => collection.name === before)) {
    select.value = before;
  } else {
    chosen = false;
  }
  refreshForm();
}

// Returns the ids that a person has entered as candidates, as integers if the collection has integer ids. Returns "*"
// (the whole collection) if there are none.
function candidates(collection) {
  const lines = byId("candidates").value.split("\n").map((line) => line.trim());
  const ids = lines.filter((line) => line !== "");
  if (ids.length === 0) return "*";
  return collection.id_type === "int64" ? ids.map(integerId) : ids;
}

function filterText() {
  return byId("filter-field").hidden ? "" : byId("filter").value.trim();
}

// Returns the question in the form as {model, id_type, filter, query, tokens, text}, or null if the form has no
// question.
function question(collection) {
  const recorded = questionsOf(collection.dim)[Number(byId("recorded").value)];
  const text = byId("text").value.trim();
  const where = { model: collection.name, id_type: collection.id_type, filter: filterText() };
  if (takesTexts(collection) && text !== "") return { ...where, query: text, text };
  if (recorded === undefined || byId("recorded").value === "") return null;
  return { ...where, query: recorded.query, tokens: recorded.tokens, text: recorded.text };
}

// Says what a scan of codes chose, and whether the answer is proven.
function refinementText(refinement) {
  const scored = `scanned ${plural(refinement.planes, "plane")} of codes, scored ${plural(refinement.documents, "document")}`;
  if (refinement.certificate !== "PROVEN") return `${scored}: not proven`;
  return `${scored}: proven, by a margin of ${scoreText(refinement.margin)}`;
}

function showAnswer(answer, what, seen_us) {
  const documents = answer.results.length;
  const parts = [`${plural(documents, "document")} for “${what.text}”`, `generation ${answer.generation}`];
  parts.push(`answered in ${duration(answer.timings.total_us)}`);
  if (what.filter !== "") parts.push(`filter ${what.filter}`);
  if (answer.missing?.length > 0) parts.push(`${plural(answer.missing.length, "unknown id")}`);
  if (answer.unavailable_documents > 0) {
    const groups = answer.unavailable_groups ?? [];
    const where = groups.length > 0 ? `of groups that do not answer (${groups.join(", ")})` : "on lost devices or servers";
    parts.push(`${count(answer.unavailable_documents)} ${where}`);
  }
  if (answer.query_truncated) parts.push("the encoder cut the end of the question, which is longer than its model reads");
  if (answer.refinement !== undefined) parts.push(refinementText(answer.refinement));
  byId("answer-status").textContent = `${parts.join(" · ")}.`;
  byId("timings").replaceChildren(timingsBar(answer.timings, seen_us));
  byId("results").replaceChildren(...resultItems(answer.results, { ...what, tokens: answer.query_tokens ?? what.tokens }));
}

function showError(message) {
  byId("answer-status").textContent = message;
  byId("answer-status").classList.add("error");
  byId("timings").replaceChildren();
  byId("results").replaceChildren();
}

async function ask() {
  const collection = selected();
  const what = collection === undefined ? null : question(collection);
  if (what === null) {
    (takesTexts(collection) ? byId("text") : byId("recorded")).focus();
    return;
  }
  const turn = ++asked;
  const status = byId("answer-status");
  byId("answer").setAttribute("aria-busy", "true");
  status.classList.remove("error");
  status.textContent = "Asking…";
  const begin = performance.now();
  try {
    const answer = await post("/v1/rerank", {
      model: what.model,
      query: what.query,
      documents: candidates(collection),
      top_n: Math.min(100, Math.max(1, Number(byId("top").value) || 10)),
      return_documents: true,
      ...(what.filter === "" ? {} : { filter: what.filter }),
    });
    if (turn === asked) showAnswer(answer, what, (performance.now() - begin) * 1000);
  } catch (error) {
    if (turn === asked) showError(error.message);
  } finally {
    if (turn === asked) byId("answer").setAttribute("aria-busy", "false");
  }
}

async function loadFile(event) {
  const file = event.target.files[0];
  if (file === undefined) return;
  const status = byId("questions-note");
  status.classList.remove("error");
  try {
    loadQuestions(await file.text());
    const fitting = questionsOf(selected()?.dim).length;
    status.textContent = `${plural(fitting, "question")} of ${file.name} can be asked of this collection.`;
    refreshForm();
  } catch (error) {
    status.classList.add("error");
    status.textContent = error.message;
  }
}

export function startAsk() {
  byId("text").placeholder = isTouch()
    ? "Write a question, then tap Ask."
    : "Write a question. Enter asks it, Shift+Enter starts a new line.";
  byId("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  byId("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    ask();
  });
  // Copy the recorded question into the text field: the form shows only one question.
  byId("recorded").addEventListener("change", () => {
    const recorded = questionsOf(selected()?.dim)[Number(byId("recorded").value)];
    if (recorded !== undefined && byId("recorded").value !== "") byId("text").value = recorded.text;
  });
  byId("text").addEventListener("input", () => {
    if (!byId("text-field").hidden) byId("recorded").value = "";
  });
  byId("collection").addEventListener("change", () => {
    chosen = true;
    refreshForm();
  });
  byId("questions-file").addEventListener("change", loadFile);
}
