// Starts the console, and keeps its figures fresh while the page is visible.
import { get } from "./api.js";
import { refreshForm, setCollections, startAsk } from "./ask.js";
import { showCollections } from "./collections.js";
import { byId } from "./dom.js";
import { showStats } from "./live.js";
import { fetchQuestions } from "./questions.js";
import { startToken, tokenTrouble } from "./token.js";

const COLLECTIONS_MS = 10000;
const STATS_MS = 2500; // half of a sample: a new one is seen soon
const THEME_KEY = "maxsimd.theme";

function setState(kind, text) {
  byId("state").dataset.kind = kind;
  if (byId("state").textContent !== text) byId("state").textContent = text;
}

// Calls `work` now and again after each pause, but not while the page is hidden.
function repeat(work, pause_ms) {
  let timer = 0;
  const turn = async () => {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        await work();
      } catch (error) {
        setState("bad", error.status === 401 ? tokenTrouble() : error.status === 0 ? "no answer" : error.message);
      }
    }
    timer = setTimeout(turn, pause_ms);
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) turn();
  });
  turn();
  return turn;
}

async function updateCollections() {
  const answer = await get("/v1/collections");
  setCollections(answer.collections, answer.encoder);
  showCollections(answer.collections);
}

async function updateStats() {
  try {
    showStats(await get("/v1/stats"));
  } catch (error) {
    // The figures are of the whole server, which a tenant does not see.
    if (error.status !== 403) throw error;
  }
  // A server that is shutting down still answers /v1/stats, but is not ready.
  const ready = await fetch("/readyz", { cache: "no-store" });
  const lines = (await ready.text()).trim().split("\n");
  // The lines after the first say what a ready server lacks, such as devices or replicas.
  setState(ready.ok ? "good" : "bad", ready.ok ? ["ready", ...lines.slice(1)].join(" · ") : lines.join("\n"));
}

function startTheme() {
  const select = byId("theme");
  const apply = () => {
    if (select.value === "") {
      delete document.documentElement.dataset.theme;
    } else {
      document.documentElement.dataset.theme = select.value;
    }
  };
  select.value = localStorage.getItem(THEME_KEY) ?? "";
  select.addEventListener("change", () => {
    localStorage.setItem(THEME_KEY, select.value);
    apply();
  });
  apply();
}

async function updateQuestions() {
  await fetchQuestions();
  refreshForm();
}

startTheme();
startAsk();
const again = [];
startToken(() => again.forEach((turn) => turn()));
again.push(repeat(updateCollections, COLLECTIONS_MS), repeat(updateStats, STATS_MS));
// If the questions cannot be loaded, the rest of the page still works.
const tryQuestions = () => updateQuestions().catch(() => undefined);
again.push(tryQuestions);
tryQuestions();
