// Holds the bearer token of this tab, and asks for it where the server wants one.
import { byId } from "./dom.js";

const KEY = "maxsimd.token";

let asking = null; // the promise of an open dialog: there is one at a time

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

// Resolves to true once there is another token, and to false where the person does without.
export function askForToken(reason) {
  if (asking !== null) return asking;
  const dialog = byId("token-dialog");
  const input = byId("token");
  byId("token-reason").textContent = reason;
  byId("token-forget").hidden = token() === "";
  input.value = "";
  dialog.returnValue = "";
  asking = new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        resolve(dialog.returnValue === "changed");
      },
      { once: true },
    );
  });
  dialog.showModal();
  input.focus();
  return asking;
}

export function startToken(onChange) {
  const dialog = byId("token-dialog");
  const end = (value) => {
    if (value === null) {
      sessionStorage.removeItem(KEY);
    } else {
      sessionStorage.setItem(KEY, value);
    }
    dialog.close("changed");
  };
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const value = byId("token").value.trim();
    if (value !== "") end(value);
  });
  byId("token-forget").addEventListener("click", () => end(null));
  byId("token-cancel").addEventListener("click", () => dialog.close(""));
  byId("token-button").addEventListener("click", async () => {
    const reason = token() === "" ? "No token is set." : "A token is set.";
    if (await askForToken(reason)) onChange();
  });
}
