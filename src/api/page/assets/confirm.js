// Asking before something is gone for good.

import { byId, setText } from "./dom.js";

/** Whether the user says yes. */
export function confirm(title, text, yes) {
  const dialog = byId("confirm-dialog");
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(byId("confirm-yes"), yes);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
