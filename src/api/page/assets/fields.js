// What is wrong with a form, in words, at the fields it is wrong with.

import { byId, el, rich } from "./dom.js";

/**
 * Shows a problem: each error at its field, and all of them in a list on top.
 * @param {HTMLFormElement} form
 * @param {import("./api.js").Problem} problem
 * @param {Record<string, import("./images.js").ImageStrip>} strips  by their pointers
 */
export function showProblem(form, problem, strips) {
  clearProblem(form, strips);
  const items = problem.errors.map(({ pointer, detail }) => {
    const { name, focus } = at(form, pointer, detail, strips);
    const text = rich(`${name}: ${detail}`);
    return el(
      "li",
      {},
      focus
        ? el("button", { type: "button", class: "link", onclick: focus }, ...text)
        : el("span", {}, ...text),
    );
  });
  const summary = byId("form-errors");
  const title = items.length
    ? "This can’t be made yet:"
    : `This could not be asked for: ${problem.words ?? problem.message}`;
  summary.replaceChildren(el("p", {}, ...rich(title)), ...(items.length ? [el("ul", {}, ...items)] : []));
  summary.hidden = false;
  summary.focus();
}

/** Takes everything back that was said. */
export function clearProblem(form, strips) {
  const summary = byId("form-errors");
  summary.hidden = true;
  summary.replaceChildren();
  for (const old of form.querySelectorAll(".field-error")) old.remove();
  for (const control of form.querySelectorAll("[aria-invalid]")) {
    control.removeAttribute("aria-invalid");
    const hint = control.dataset.hint;
    if (hint) control.setAttribute("aria-describedby", hint);
    else control.removeAttribute("aria-describedby");
  }
  Object.values(strips).forEach((strip) => strip.clearErrors());
}

/** Shows one error, and gives the field's name and the way there. */
function at(form, pointer, detail, strips) {
  const field = fieldOf(form, pointer);
  if (!field) return { name: inWords(pointer) };
  const label = field.querySelector("label:not(.button), .label").firstChild.textContent.trim();
  const rest = pointer.slice(field.dataset.field.length);
  const strip = strips[field.dataset.field];
  if (strip) {
    const index = /^\/(\d+)/.exec(rest)?.[1];
    strip.setError(index, detail);
    return {
      name: index === undefined ? label : `${label}, number ${Number(index) + 1}`,
      focus: () => strip.focus(),
    };
  }
  const control = field.querySelector("input, select, textarea");
  mark(field, control, pointer, rest ? `${inWords(rest)}: ${detail}` : detail);
  return { name: rest ? `${label}, ${inWords(rest)}` : label, focus: () => reveal(control) };
}

function mark(field, control, pointer, text) {
  const id = `error${pointer.replaceAll(/\W/g, "-")}`;
  field.append(el("p", { class: "error field-error", id }, ...rich(text)));
  const described = control.getAttribute("aria-describedby") ?? "";
  if (!control.hasAttribute("aria-invalid")) control.dataset.hint = described;
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", `${described} ${id}`.trim());
}

function reveal(control) {
  const closed = control.closest("details");
  if (closed) closed.open = true;
  control.focus();
}

/** The field that a pointer leads to or into, if it is shown. */
function fieldOf(form, pointer) {
  const into = (path) => pointer === path || pointer.startsWith(`${path}/`);
  const fields = [...form.querySelectorAll("[data-field]")].filter(
    (field) => into(field.dataset.field) && !field.closest("[hidden]"),
  );
  return fields.sort((a, b) => b.dataset.field.length - a.dataset.field.length)[0];
}

/** "/script/scenes/0/video_prompts/2" is "script, scene 1, video prompt 3". */
export function inWords(pointer) {
  const words = [];
  for (const part of pointer.split("/").slice(1)) {
    const plain = part.replaceAll("~1", "/").replaceAll("~0", "~").replaceAll("_", " ");
    if (/^\d+$/.test(part) && words.length)
      words.push(`${words.pop().replace(/s$/, "")} ${Number(part) + 1}`);
    else words.push(plain);
  }
  return words.join(", ") || "the request";
}
