// The API key: where it is kept, and the dialog that asks for it.

import { byId, say } from "./dom.js";

const NAME = "storymem-key";
const changes = new EventTarget();

/** The key, if there is one. */
export const key = () => sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME);

/** Calls `f` whenever another key, or none, is to be used. */
export const onKeyChange = (f) => changes.addEventListener("change", f);

function keep(value, onDevice) {
  sessionStorage.removeItem(NAME);
  localStorage.removeItem(NAME);
  if (value) (onDevice ? localStorage : sessionStorage).setItem(NAME, value);
  changes.dispatchEvent(new Event("change"));
}

/** Opens the dialog, saying why. */
export function askForKey(reason = "Needed where the operator has made keys.") {
  const dialog = byId("key-dialog");
  if (dialog.open) return;
  say(byId("key-reason"), reason);
  byId("key").value = "";
  byId("key-keep").checked = localStorage.getItem(NAME) !== null;
  byId("key-forget").hidden = !key();
  dialog.returnValue = "cancel";
  dialog.showModal();
  byId("key").focus();
}

/** Makes the button and the dialog work. */
export function setUpKey() {
  byId("key-button").addEventListener("click", () => askForKey());
  byId("key-dialog").addEventListener("close", ({ target }) => {
    const given = byId("key").value.trim();
    byId("key").value = "";
    if (target.returnValue === "forget") keep(null);
    if (target.returnValue === "use" && given) keep(given, byId("key-keep").checked);
  });
}
