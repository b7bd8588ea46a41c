// Making and finding elements. Text stays text: nothing here reads HTML.

/** The element with an id. */
export const byId = (id) => document.getElementById(id);

/** An element: `el("p", { class: "hint", onclick: f }, "text", child)`. Absent and false attributes are left out. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false)
      element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A copy of a `<template>`, and its parts by their `data-part`. */
export function copy(templateId) {
  const element = byId(templateId).content.firstElementChild.cloneNode(true);
  const parts = Object.fromEntries(
    [...element.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]),
  );
  return { element, parts };
}

/** Sets a text only when it is another, so that screen readers and selections are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows an element with what it says, or hides it when there is nothing to say. */
export function say(element, text) {
  element.hidden = !text;
  if (element.dataset.said === text) return;
  element.dataset.said = text ?? "";
  element.replaceChildren(...rich(text ?? ""));
}

/** The service's messages name things in backticks: those become `<code>`. */
export function rich(text) {
  return text.split("`").map((piece, i) => (i % 2 ? el("code", {}, piece) : document.createTextNode(piece)));
}

/** Tells screen readers what has happened. */
export function announce(text) {
  const live = byId("live");
  // The same text twice in a row would not be read again.
  live.textContent = live.textContent === text ? `${text}\u00a0` : text;
}
