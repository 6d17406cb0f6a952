// Recorded questions: texts together with the vectors that an encoder made of them, for servers without an encoder.
// They come from the server (http.console_questions) or from a file that a person chooses.
import { get } from "./api.js";

let questions = [];

function isQuestion(value) {
  const shape = value?.query?.shape;
  return (
    typeof value?.text === "string" &&
    typeof value?.query?.dtype === "string" &&
    typeof value.query.data === "string" &&
    Array.isArray(shape) &&
    shape.length === 2 &&
    shape.every((size) => Number.isInteger(size) && size > 0) &&
    (value.tokens === undefined || (Array.isArray(value.tokens) && value.tokens.length === shape[0]))
  );
}

export async function fetchQuestions() {
  questions = (await get("/console/questions.json")).questions;
}

// Replaces the questions by those in `text` (JSON Lines). Errors name the line.
export function loadQuestions(text) {
  const loaded = [];
  text.split("\n").forEach((line, idx) => {
    if (line.trim() === "") return;
    let value = null;
    try {
      value = JSON.parse(line);
    } catch {
      throw new Error(`Line ${idx + 1} is not JSON.`);
    }
    if (!isQuestion(value)) {
      throw new Error(`Line ${idx + 1} is not {"text", "tokens", "query": {"dtype", "shape", "data"}}.`);
    }
    loaded.push(value);
  });
  questions = loaded;
}

// Returns the recorded questions whose vectors have this dimension.
export function questionsOf(dim) {
  return questions.filter((question) => question.query.shape[1] === dim);
}
