// A shot of a story: its picture and video, and the way to have it made again.

import { ask, drawKey } from "./api.js";
import { Card } from "./card.js";
import { announce, say, setText } from "./dom.js";
import { stage, VARIANT } from "./words.js";

export class StoryShot extends Card {
  /** @param {import("./job-card.js").Wishes} wishes  @param {() => string} story  gives the path of its story */
  constructor(wishes, story) {
    super("shot-template");
    Object.assign(this, { wishes, story, shot: null });
    this.button("redo", "Make again…", () => this.openForm());
    const { form, never } = this.parts;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.attempt(() => this.redo());
    });
    never.addEventListener("click", () => this.closeForm());
  }

  /** Shows the shot as it is now, before so many others. */
  update(shot, later) {
    this.shot = shot;
    const { parts } = this;
    const { result, status, progress } = shot;
    const moving = status === "running" || status === "cancelling";
    this.showStatus(status);
    this.showMedia(shot.prompt, result?.thumbnail_url ?? null, result?.video_url ?? null);
    setText(parts.number, `Shot ${shot.shot}, scene ${shot.scene}`);
    setText(parts.note, moving ? stage(progress) : `${VARIANT[shot.mode] ?? shot.mode} · seed ${shot.seed}`);
    say(parts.error, shot.error ? shot.error.detail : this.fault);
    say(parts.warnings, shot.warnings.join("; "));
    setText(
      parts.later,
      ["", "The shot after it will be made again, too."][later] ??
        `The ${later} shots after it will be made again, too.`,
    );
    this.offer({ play: result, save: false, redo: parts.form.hidden });
    this.buttons.redo.setAttribute("aria-label", `Make shot ${shot.shot} again…`);
  }

  openForm() {
    const { form, prompt, seed } = this.parts;
    prompt.value = this.shot.prompt;
    seed.value = "";
    form.hidden = false;
    this.buttons.redo.hidden = true;
    prompt.focus();
  }

  closeForm() {
    this.parts.form.hidden = true;
    this.buttons.redo.hidden = false;
    this.buttons.redo.focus();
  }

  async redo() {
    const { prompt, seed } = this.parts;
    const json = {
      ...(prompt.value.trim() !== this.shot.prompt && { prompt: prompt.value.trim() }),
      ...(seed.value !== "" && { seed: Number(seed.value) }),
    };
    await ask("POST", `${this.story()}/shots/${this.shot.shot}/redo`, {
      json,
      headers: { "Idempotency-Key": drawKey() },
    });
    announce(`Shot ${this.shot.shot} will be made again`);
    this.closeForm();
    this.wishes.refresh();
  }
}
