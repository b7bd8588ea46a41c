// What a story remembers: frames to see, to pin for every shot to come, to drop, and to add.

import { ask } from "./api.js";
import { announce, el, setText } from "./dom.js";
import { source } from "./media.js";

export class StoryMemory {
  /**
   * @param {Record<string, HTMLElement>} parts  of the story's card
   * @param {(action: () => Promise<void>) => void} attempt  does what can fail
   * @param {(story: object) => void} changed  is called with the story after a change
   */
  constructor(parts, attempt, changed) {
    Object.assign(this, {
      list: parts.memory,
      none: parts["no-memory"],
      attempt,
      changed,
      frames: new Map(),
    });
    parts["memory-add"].addEventListener("change", ({ target }) => {
      const files = [...target.files];
      target.value = "";
      attempt(() => this.add(files));
    });
  }

  update(story) {
    this.story = story;
    this.none.hidden = story.memory.length > 0;
    const there = new Set(story.memory.map(({ id }) => id));
    for (const [id, { element }] of this.frames) {
      if (there.has(id)) continue;
      element.remove();
      this.frames.delete(id);
    }
    story.memory.forEach((frame, i) => {
      if (!this.frames.has(frame.id)) this.frames.set(frame.id, this.tile(frame));
      const { element, pin, drop } = this.frames.get(frame.id);
      element.classList.toggle("dropped", frame.dropped);
      pin.setAttribute("aria-pressed", frame.pinned);
      drop.setAttribute("aria-pressed", frame.dropped);
      if (this.list.children[i] !== element) this.list.insertBefore(element, this.list.children[i] ?? null);
    });
  }

  tile({ id, shot, frame, image_url: path }) {
    const name =
      frame !== null
        ? `frame ${frame + 1} of shot ${shot}`
        : shot
          ? `given after shot ${shot}`
          : "given at the start";
    const image = el("img", { alt: name });
    source(path).then(
      (address) => (image.src = address),
      () => {},
    );
    const toggle = (text, list) => {
      const attributes = {
        type: "button",
        class: "icon",
        "aria-pressed": "false",
        "aria-label": `${text} ${name}`,
      };
      return el(
        "button",
        { ...attributes, onclick: () => this.attempt(() => this.toggle(id, list, name)) },
        text,
      );
    };
    const [pin, drop] = [toggle("Pin", "pinned"), toggle("Drop", "dropped")];
    const caption = el("p", { class: "state" });
    setText(caption, name);
    const element = el(
      "li",
      { class: "tile" },
      el("div", { class: "picture" }, image),
      caption,
      el("div", { class: "tools" }, pin, drop),
    );
    return { element, pin, drop };
  }

  /** A frame is pinned or dropped or neither: what is taken into one list leaves the other. */
  async toggle(id, list, name) {
    const other = list === "pinned" ? "dropped" : "pinned";
    const ids = (which) => this.story.memory.filter((frame) => frame[which]).map((frame) => frame.id);
    const on = !ids(list).includes(id);
    const lists = {
      [list]: on ? [...ids(list), id] : ids(list).filter((one) => one !== id),
      [other]: ids(other).filter((one) => one !== id),
    };
    await this.put({ pin: lists.pinned, drop: lists.dropped });
    announce(`${name}: ${on ? list : `not ${list} any more`}`);
  }

  async add(files) {
    const uploads = await Promise.all(
      files.map((file) => ask("POST", "/uploads", { body: file, headers: { "Content-Type": file.type } })),
    );
    await this.put({ add: uploads.map(({ id }) => ({ upload: id })) });
    announce("Added to what the story remembers");
  }

  async put(json) {
    this.changed(await ask("PUT", this.story.links.memory, { json }));
  }
}
