// A story in the queue: its film, its shots, and what it remembers.

import { ask, call } from "./api.js";
import { Card } from "./card.js";
import { confirm } from "./confirm.js";
import { announce, say, setText } from "./dom.js";
import { StoryMemory } from "./story-memory.js";
import { StoryShot } from "./story-shot.js";
import { bytes, duration, isFinal, short, stage, STATUS, time } from "./words.js";

/** The whole of a story for its entry in the list; the one that is shown already, if nothing has happened since. */
export async function wholeStory(entry, card) {
  const shown = card?.item;
  const same =
    shown &&
    shown.status === entry.status &&
    shown.progress.made === entry.made &&
    shown.finished_at === entry.finished_at;
  return same && isFinal(entry.status) ? shown : ask("GET", `/stories/${entry.id}`);
}

export class StoryCard extends Card {
  /** @param {import("./job-card.js").Wishes} wishes */
  constructor(wishes) {
    super("story-template", "Play the film");
    Object.assign(this, { wishes, story: null, shots: [] });
    this.memory = new StoryMemory(
      this.parts,
      (action) => this.attempt(action),
      (story) => this.update(story),
    );
    this.button("cancel", "Cancel", () => this.cancel());
    this.button("remove", "Delete the story", () => this.remove(), this.parts["more-actions"]);
  }

  get item() {
    return this.story;
  }

  /** Shows the story as it is now. */
  update(story) {
    const before = this.story;
    this.story = story;
    const { parts } = this;
    const { status, progress, film, links } = story;
    const title = titleOf(story);
    const moving = !isFinal(status);
    this.showStatus(status);
    this.showMedia(
      title,
      story.shots.find(({ result }) => result)?.result.thumbnail_url ?? null,
      links.video,
    );
    setText(parts.note, time(story.finished_at ?? story.created_at));
    parts.progress.hidden = !moving;
    parts.bar.value = progress.percent;
    parts.bar.setAttribute("aria-label", `Progress of ${short(title)}`);
    setText(parts.stage, this.stage());
    setText(parts.facts, facts(story));
    say(
      parts.error,
      story.error ? `shot ${story.error.shot}: ${story.error.detail} (\`${story.error.code}\`)` : this.fault,
    );
    this.offer({
      play: links.video,
      save: links.video,
      cancel: links.cancel && status !== "cancelling",
      remove: !moving,
    });
    this.showShots();
    this.memory.update(story);
    if (before && before.status !== status) announce(`${STATUS[status]}: ${short(title)}`);
    else if (before && before.progress.made < progress.made)
      announce(`${progress.made} of ${progress.shots} shots: ${short(title)}`);
    if (film && !film.current) setText(parts.note, "the film is of before; a new one is being made");
  }

  /** Takes what a stream of events says of it. */
  take(name, data) {
    if (name === "snapshot" || name === "end") return this.update(data);
    const { status, shot, job, job_status: shotStatus, progress } = data;
    const shots = this.story.shots.map((old) =>
      old.shot === shot ? { ...old, job, status: shotStatus, progress } : old,
    );
    const percent = shots.reduce((sum, one) => sum + one.progress.percent, 0) / shots.length;
    this.update({ ...this.story, status, shots, progress: { ...this.story.progress, percent } });
    // What a shot has made and what is remembered of it only the whole story tells.
    if (name === "state") this.wishes.refresh();
  }

  leave() {
    this.shots.forEach((shot) => shot.leave());
    super.leave();
  }

  stage() {
    const { shots, progress } = this.story;
    const now = shots.find(({ status }) => status === "running" || status === "cancelling");
    const count = `${progress.made} of ${progress.shots} shots made`;
    return now ? `${count} · shot ${now.shot}: ${stage(now.progress).toLowerCase()}` : count;
  }

  showShots() {
    const { shots } = this.story;
    while (this.shots.length < shots.length) {
      const row = new StoryShot(this.wishes, () => this.story.links.self);
      this.shots.push(row);
      this.parts.shots.append(row.element);
    }
    this.shots.forEach((row, i) => row.update(shots[i], shots.slice(i + 1).length));
    setText(this.parts.summary, `${shots.length} shots, ${this.story.memory.length} remembered frames`);
  }

  async cancel() {
    this.update(await ask("POST", this.story.links.cancel));
    this.wishes.refresh();
  }

  async remove() {
    if (
      !(await confirm(
        "Delete this story?",
        `“${short(this.name)}”, its film and all its shots will be gone for good.`,
        "Delete",
      ))
    )
      return;
    await call("DELETE", this.story.links.self);
    announce(`Deleted: ${short(this.name)}`);
    this.wishes.refresh();
  }
}

function titleOf({ request, shots }) {
  return request.script?.story_name || shots[0].prompt;
}

function facts({ shots, film, progress }) {
  if (!film) return `${progress.shots} shots`;
  return [
    `${film.width}×${film.height}`,
    `${shots.length} shots, ${duration(film.seconds)}`,
    bytes(film.bytes),
  ].join(" · ");
}
