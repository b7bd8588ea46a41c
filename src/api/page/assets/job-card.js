// A shot in the queue: how far it is, what it made, and what can be done with it.

import { ask, call } from "./api.js";
import { Card } from "./card.js";
import { confirm } from "./confirm.js";
import { announce, el, rich, say, setText } from "./dom.js";
import { bytes, duration, facts, isFinal, place, short, stage, STATUS, time } from "./words.js";

/**
 * What a card can ask of the page around it.
 * @typedef {object} Wishes
 * @property {() => void} refresh  the queue is not as it was
 * @property {(job: object) => void} reuse  put a job's settings into the form
 * @property {(job: object) => void} goOn  begin a new shot with a job's last frame
 * @property {(job: object) => void} remember  put a job's last frame among the memory
 */

export class JobCard extends Card {
  /** @param {Wishes} wishes  @param {boolean} startsFromFrames  whether the service can begin with a frame */
  constructor(wishes, startsFromFrames) {
    super("job-template");
    Object.assign(this, { wishes, startsFromFrames, job: null });
    this.button("cancel", "Cancel", () => this.post("cancel"));
    this.button("retry", "Try again", () => this.post("retry"));
    const more = this.parts["more-actions"];
    this.button("goOn", "Go on from its last frame", () => wishes.goOn(this.job), more);
    this.button("remember", "Remember its last frame", () => wishes.remember(this.job), more);
    this.button("reuse", "Use these settings again", () => wishes.reuse(this.job), more);
    this.button("remove", "Delete", () => this.remove(), more);
  }

  get item() {
    return this.job;
  }

  /** Shows the job as it is now. */
  update(job) {
    const before = this.job;
    if (before && isOlder(job, before)) return;
    this.job = job;
    const { parts } = this;
    const { status, links, progress, request } = job;
    const moving = status === "running" || status === "cancelling";
    this.showStatus(status);
    this.showMedia(request.prompt, links.thumbnail, links.video);
    setText(parts.note, this.note());
    setText(parts.facts, facts(job));
    parts.progress.hidden = !moving;
    parts.bar.value = progress.percent;
    parts.bar.setAttribute("aria-label", `Progress of ${short(request.prompt)}`);
    setText(parts.stage, stage(progress));
    say(parts.error, job.error ? `${job.error.detail} (\`${job.error.code}\`)` : this.fault);
    this.warn(job.warnings);
    this.list();
    this.offer({
      play: links.video,
      save: links.video,
      cancel: links.cancel && status !== "cancelling",
      retry: links.retry,
      goOn: links.video && this.startsFromFrames,
      remember: links.video,
      reuse: true,
      remove: !links.cancel,
    });
    if (before && before.status !== status) announce(`${STATUS[status]}: ${short(request.prompt)}`);
    else if (before && moving) this.announceQuarter(before.progress.percent, progress.percent);
  }

  /** Takes what a stream of events says of it. */
  take(name, data) {
    this.update(name === "snapshot" || name === "end" ? data : { ...this.job, ...data });
  }

  note() {
    const {
      status,
      queue_position: position,
      finished_at: end,
      created_at: begin,
      attempt,
      links,
    } = this.job;
    if (status === "queued") return place(position);
    if (status === "running" && attempt > 1) return `attempt ${attempt}`;
    if (status === "succeeded" && !links.video) return `${time(end)} · its files have expired`;
    return time(end ?? begin);
  }

  warn(warnings) {
    this.parts.warnings.hidden = warnings.length === 0;
    if (this.parts.warnings.childElementCount !== warnings.length) {
      this.parts.warnings.replaceChildren(...warnings.map((text) => el("li", {}, ...rich(text))));
    }
  }

  list() {
    const { id, effective, timings, result, request, worker, created_at: created } = this.job;
    const { high, low } = effective.guidance_scale;
    const images = [...(request.memory ?? []), request.first_frame, ...(request.motion_frames ?? [])].filter(
      Boolean,
    );
    const entries = {
      "Asked for": time(created),
      Waited: timings.queued_seconds !== null && duration(timings.queued_seconds),
      Took: timings.running_seconds !== null && duration(timings.running_seconds),
      "Size of the file": result && bytes(result.bytes),
      Guidance: high === low ? high : `${high} and ${low}`,
      "Solver, shift": `${effective.solver}, ${effective.shift}`,
      Images: images.length,
      Worker: worker,
      Job: id,
    };
    const shown = Object.entries(entries).filter(([, value]) => value !== null && value !== false);
    const text = JSON.stringify(shown);
    if (this.listed === text) return;
    this.listed = text;
    this.parts.list.replaceChildren(
      ...shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]),
    );
  }

  async post(verb) {
    const job = await ask("POST", `/jobs/${this.job.id}/${verb}`);
    if (job.id === this.job.id) this.update(job);
    else announce(`Queued again: ${short(job.request.prompt)}`);
    this.wishes.refresh();
  }

  async remove() {
    if (
      !(await confirm(
        "Delete this video?",
        `“${short(this.name)}” and its files will be gone for good.`,
        "Delete",
      ))
    )
      return;
    await call("DELETE", `/jobs/${this.job.id}`);
    announce(`Deleted: ${short(this.name)}`);
    this.wishes.refresh();
  }

  announceQuarter(before, now) {
    const quarters = (percent) => Math.floor(percent / 25);
    if (quarters(now) > quarters(before)) announce(`${quarters(now) * 25} %: ${short(this.name)}`);
  }
}

/** A list that was asked for before the latest event may come after it. */
function isOlder(job, shown) {
  if (isFinal(shown.status)) return !isFinal(job.status);
  const going = job.status === "running" && shown.status === "running" && job.attempt === shown.attempt;
  return going && job.progress.percent < shown.progress.percent;
}
