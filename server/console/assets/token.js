// Holds this tab's bearer token, and asks for one when the server requires it.
import { byId } from "./dom.js";

const KEY = "maxsimd.token";

let asking = null; // the promise of an open dialog: there is one at a time
let refused = ""; // the last token that the server did not accept

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

// Remembers that the server answered 401 to this token ("": to no token).
export function refuseToken(value) {
  refused = value;
}

// Returns why the server answers 401: there is no token, or it is wrong.
export function tokenTrouble() {
  return token() === "" ? "token needed" : "wrong token";
}

function reasonText(is_needed) {
  if (token() !== "" && token() === refused) return "The server did not accept this token. Check it, and enter it again.";
  if (token() !== "") return "A token is set.";
  return is_needed ? "This server asks for a token." : "No token is set.";
}

// Opens the dialog in which a person enters the token. `is_needed` tells whether the server has refused a call.
// Resolves to true when the token was changed or removed, and to false when the dialog was cancelled.
export function askForToken(is_needed) {
  if (asking !== null) return asking;
  const dialog = byId("token-dialog");
  const input = byId("token");
  const is_wrong = token() !== "" && token() === refused;
  byId("token-reason").textContent = reasonText(is_needed);
  byId("token-reason").classList.toggle("error", is_wrong);
  input.setAttribute("aria-invalid", String(is_wrong));
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
    if (await askForToken(false)) onChange();
  });
}
