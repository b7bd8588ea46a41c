// What all cards have in common: a picture, a video that plays in its place, buttons that come and go, and words for
// what went wrong.

import { announce, copy, el, say, setText } from "./dom.js";
import { release, save, source } from "./media.js";
import { short, STATUS } from "./words.js";

/**
 * A card made from a template with the parts `screen`, `poster`, `thumbnail`, `play`, `status`, `title`, `error` and
 * `actions`.
 */
export class Card {
  constructor(templateId, playWord = "Play") {
    Object.assign(this, copy(templateId), { playWord, buttons: {}, name: "", video: null, thumbnail: null });
    // So that the keyboard has a place to go to when a button goes.
    this.parts.title.tabIndex = -1;
    this.parts.poster.addEventListener("click", () => this.attempt(() => this.play()));
    this.button("play", playWord, () => this.play());
    this.button("save", "Download", () => save(this.video));
  }

  /** Shows where it stands. */
  showStatus(status) {
    this.element.dataset.status = this.parts.status.dataset.status = status;
    setText(this.parts.status, STATUS[status] ?? status);
  }

  /**
   * Takes what there is to see.
   * @param {string} name  what it is called
   * @param {string | null} thumbnail  the path of a picture
   * @param {string | null} video  the path of a video
   */
  showMedia(name, thumbnail, video) {
    this.name = name;
    setText(this.parts.title, name);
    if (this.video && this.video !== video) this.stop();
    this.video = video;
    this.parts.poster.disabled = !video;
    this.parts.poster.setAttribute("aria-label", `Play ${short(name)}`);
    this.parts.play.hidden = !video;
    this.showThumbnail(thumbnail);
  }

  /** It is gone. */
  leave() {
    for (const path of [this.thumbnail, this.video]) if (path) release(path);
    this.element.remove();
  }

  /** Adds a button, to be shown by `offer`. */
  button(key, text, action, where = this.parts.actions) {
    const button = el("button", { type: "button", hidden: true }, text);
    button.addEventListener("click", () => this.attempt(action));
    where.append(button);
    this.buttons[key] = button;
  }

  /** Shows those buttons whose entry is true. */
  offer(offers) {
    const focused = document.activeElement;
    for (const [key, button] of Object.entries(this.buttons)) button.hidden = !offers[key];
    if (focused?.hidden && this.element.contains(focused)) this.parts.title.focus();
  }

  /** Plays the video in place of its picture; or no more. */
  async play() {
    if (this.player) return this.stop();
    const src = await source(this.video);
    this.player = el("video", {
      src,
      controls: true,
      loop: true,
      playsinline: true,
      "aria-label": this.name,
    });
    this.player.addEventListener("error", () =>
      this.complain("the video can't be played here; download it instead"),
    );
    this.parts.screen.append(this.player);
    this.element.classList.add("playing");
    setText(this.buttons.play, "Close");
    // Where a browser wants another click first, its controls are there.
    this.player.play().catch(() => {});
  }

  stop() {
    this.player?.remove();
    this.player = null;
    release(this.video);
    this.element.classList.remove("playing");
    setText(this.buttons.play, this.playWord);
  }

  /** Does something that can fail, and says so here. */
  async attempt(action) {
    this.complain(null);
    try {
      await action();
    } catch (problem) {
      this.complain(problem.words ?? problem.message);
    }
  }

  /** Says what went wrong with what the user wanted. */
  complain(text) {
    this.fault = text;
    say(this.parts.error, text);
    if (text) announce(text);
  }

  async showThumbnail(path) {
    const { thumbnail } = this.parts;
    if (this.thumbnail === path) return;
    if (this.thumbnail) release(this.thumbnail);
    this.thumbnail = path;
    thumbnail.hidden = true;
    if (!path) return;
    try {
      thumbnail.src = await source(path);
      thumbnail.hidden = false;
    } catch {
      // No picture; the next look at the queue tries again.
      this.thumbnail = null;
    }
  }
}
