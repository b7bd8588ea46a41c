// A strip of images in order. Each is sent as soon as it is given, so that what is wrong with it shows at once and a
// request only names it.

import { ask } from "./api.js";
import { announce, byId, copy, el, say } from "./dom.js";
import { askForKey, onKeyChange } from "./key.js";
import { source } from "./media.js";
import { sortable } from "./sortable.js";

const TYPES = "image/png,image/jpeg,image/webp";

/** Refusals that say nothing of the image: no key, too slow, too many. */
const PASSING = [401, 408, 429];

/** What images looked like that were sent from this page, by their id, for when they are used again. */
const seen = new Map();

export class ImageStrip {
  /** @param {string} id of the element it lives in  @param {number} most images it takes */
  constructor(id, most) {
    this.root = byId(id);
    this.most = most;
    this.images = [];
    this.list = el("ol", { class: "tiles" });
    this.input = el("input", { type: "file", class: "unseen", accept: TYPES, multiple: most > 1 });
    this.label = el("span", {}, most > 1 ? "Add images" : "Choose an image");
    this.note = el("p", { class: "error", role: "alert", hidden: true });
    this.add = el("label", { class: "add" }, this.input, this.label);
    this.root.append(this.list, this.add, this.note);
    this.input.addEventListener("change", () => {
      this.take(this.input.files);
      this.input.value = "";
    });
    this.takeDrops();
    sortable(this.list, (from, to) => this.move(from, to));
    onKeyChange(() => {
      for (const image of this.images) if (image.unauthorized) image.sent = this.send(image);
    });
  }

  /** Takes files, as many as there is room for. */
  take(files) {
    const images = [...files].filter((file) => file.type.startsWith("image/"));
    const room = this.most - this.images.length;
    const fault =
      images.length < files.length
        ? "only images can be remembered"
        : images.length > room
          ? `there is room for ${this.most}: ${images.length - room} left out`
          : "";
    say(this.note, fault);
    for (const file of images.slice(0, room)) {
      const image = this.append({ name: file.name || "pasted image", file });
      this.show(image, URL.createObjectURL(file));
      image.sent = this.send(image);
    }
  }

  /** Takes an image that the service has already. `picture` is a path of the service, if there is one. */
  takeKnown(ref, name, picture) {
    if (this.images.length >= this.most) {
      say(this.note, `there is room for ${this.most}`);
      return false;
    }
    const image = this.append({ name, ref, sent: Promise.resolve() });
    if (picture)
      source(picture).then(
        (address) => this.show(image, address),
        () => {},
      );
    else if (seen.has(ref.upload)) this.show(image, seen.get(ref.upload));
    else say(image.parts.state, "sent before");
    return true;
  }

  /** Waits until everything is sent, and gives what a request names; throws if an image can't be used. */
  async refs() {
    await Promise.all(
      this.images.map(async (image) => {
        await image.sent;
        // What failed for a passing reason gets another chance.
        if (!image.ref && !image.refused) await this.send(image);
      }),
    );
    const bad = this.images.find((image) => !image.ref);
    if (bad) throw bad.problem;
    return this.images.map((image) => image.ref);
  }

  /** Shows what the service says of image `index`; without an index, of the whole strip. */
  setError(index, text) {
    const image = this.images[index];
    say(image?.parts.error ?? this.note, text);
    // The service may have let go of it since: next time it is sent again.
    if (image?.file) image.ref = null;
  }

  clearErrors() {
    say(this.note, "");
    this.images.forEach((image) => image.ref && say(image.parts.error, ""));
  }

  clear() {
    while (this.images.length) this.remove(this.images[0]);
    say(this.note, "");
  }

  /** Where the keyboard goes for what is wrong here. */
  focus() {
    this.input.focus();
  }

  append(image) {
    const { element, parts } = copy("tile-template");
    Object.assign(image, { element, parts });
    parts.earlier.addEventListener("click", () => this.step(image, -1, parts.earlier));
    parts.later.addEventListener("click", () => this.step(image, 1, parts.later));
    parts.remove.addEventListener("click", () => {
      const next = this.images[this.images.indexOf(image) + 1] ?? this.images.at(-2);
      this.remove(image);
      announce(`${image.name} removed`);
      (next?.parts.remove ?? this.input).focus();
    });
    this.images.push(image);
    this.list.append(element);
    this.number();
    return image;
  }

  show(image, address) {
    const picture = image.element.querySelector("img");
    picture.src = address;
    picture.alt = image.name;
    say(image.parts.state, image.ref ? "" : "sending…");
  }

  async send(image) {
    image.unauthorized = false;
    try {
      say(image.parts.state, "sending…");
      say(image.parts.error, "");
      const { id } = await ask("POST", "/uploads", {
        body: image.file,
        headers: { "Content-Type": image.file.type },
      });
      image.ref = { upload: id };
      seen.set(id, image.element.querySelector("img").src);
    } catch (problem) {
      image.problem = problem;
      image.refused = problem.status >= 400 && problem.status < 500 && !PASSING.includes(problem.status);
      image.unauthorized = problem.status === 401;
      if (image.unauthorized) askForKey("The service takes images only with an API key.");
      say(image.parts.error, problem.words ?? String(problem));
    }
    say(image.parts.state, "");
  }

  step(image, by, button) {
    const from = this.images.indexOf(image);
    const to = from + by;
    if (to < 0 || to >= this.images.length) return;
    this.list.insertBefore(
      image.element,
      by < 0 ? this.images[to].element : this.images[to].element.nextSibling,
    );
    this.move(from, to);
    // Being moved costs an element the focus; at either end its own button is of no use any more.
    (button.disabled ? image.parts[by < 0 ? "later" : "earlier"] : button).focus();
  }

  move(from, to) {
    const [image] = this.images.splice(from, 1);
    this.images.splice(to, 0, image);
    this.number();
    announce(`${image.name} is number ${to + 1} of ${this.images.length}`);
  }

  remove(image) {
    this.images = this.images.filter((other) => other !== image);
    image.element.remove();
    say(this.note, "");
    this.number();
  }

  number() {
    this.images.forEach(({ element, parts, name }, i) => {
      element.querySelector(".number").textContent = i + 1;
      parts.earlier.disabled = i === 0;
      parts.later.disabled = i === this.images.length - 1;
      parts.earlier.setAttribute("aria-label", `Move ${name} earlier`);
      parts.later.setAttribute("aria-label", `Move ${name} later`);
      parts.remove.setAttribute("aria-label", `Remove ${name}`);
    });
    this.root.classList.toggle("single", this.most === 1);
    this.add.hidden = this.images.length >= this.most;
  }

  takeDrops() {
    const over = (on) => this.root.classList.toggle("over", on);
    this.root.addEventListener("dragover", (event) => {
      event.preventDefault();
      over(true);
    });
    this.root.addEventListener(
      "dragleave",
      (event) => !this.root.contains(event.relatedTarget) && over(false),
    );
    this.root.addEventListener("drop", (event) => {
      event.preventDefault();
      over(false);
      this.take(event.dataTransfer.files);
    });
  }
}
