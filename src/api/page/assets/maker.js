// The form: from what was entered to a request, and back from a job to the form.

import { ask, drawKey, Problem } from "./api.js";
import { announce, byId } from "./dom.js";
import { clearProblem, showProblem } from "./fields.js";
import { ImageStrip } from "./images.js";
import { askForKey } from "./key.js";
import { Settings } from "./settings.js";
import { StoryForm } from "./story-form.js";
import { short } from "./words.js";

const MOTION_FRAMES = 5;

export class Maker {
  /**
   * @param {object} capabilities  `GET /capabilities`
   * @param {(made: object) => void} made  is called with each new job or story
   */
  constructor(capabilities, made) {
    Object.assign(this, { capabilities, made });
    this.form = byId("maker");
    this.settings = new Settings();
    const [{ max_memory: most }] = capabilities.variants;
    this.story = new StoryForm(capabilities.variants.map(({ variant }) => variant));
    this.memory = new ImageStrip("memory", most);
    this.first = new ImageStrip("first-frame", 1);
    this.motion = new ImageStrip("motion-frames", MOTION_FRAMES);
    this.strips = { "/memory": this.memory, "/first_frame": this.first, "/motion_frames": this.motion };
    this.offerStarts();
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    byId("start-over").addEventListener("click", () => this.reset());
    byId("kind").addEventListener("change", () => this.show());
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
    this.show();
  }

  /** Puts a job's settings into the form. */
  reuse({ request, effective }) {
    this.reset();
    byId("prompt").value = request.prompt;
    const start = request.first_frame ? "mi2v" : request.motion_frames ? "mm2v" : "m2v";
    this.chooseStart(start);
    const asked = { ...request, seed: effective.seed };
    if (typeof asked.guidance_scale === "number")
      asked.guidance_scale = { high: asked.guidance_scale, low: asked.guidance_scale };
    this.settings.fill(asked);
    const images = [
      ...(request.memory ?? []).map((image) => [this.memory, image]),
      ...(request.first_frame ? [[this.first, request.first_frame]] : []),
      ...(request.motion_frames ?? []).map((image) => [this.motion, image]),
    ];
    const lost = images.filter(([strip, image]) => !this.takeAgain(strip, image)).length;
    if (lost) this.memory.setError(undefined, `${lost} of its images can't be named again; choose them anew`);
    announce("The settings are in the form");
    byId("prompt").focus();
  }

  /** Begins a shot that goes on where a job ended. */
  goOn(job) {
    this.chooseStart("mi2v");
    this.first.clear();
    this.first.takeKnown(
      { job: job.id, keyframe: "last" },
      `last frame of ${short(job.request.prompt)}`,
      job.result.last_frame_url,
    );
    this.clearAndFocus("The last frame is the first frame of the new shot");
  }

  /** Puts the last frame of a job among the memory. */
  remember(job) {
    const taken = this.memory.takeKnown(
      { job: job.id, keyframe: "last" },
      `last frame of ${short(job.request.prompt)}`,
      job.result.last_frame_url,
    );
    if (taken) this.clearAndFocus("The last frame is remembered in the new shot");
  }

  clearAndFocus(words) {
    clearProblem(this.form, this.strips);
    announce(words);
    byId("prompt").focus();
    byId("prompt").scrollIntoView({ block: "center" });
  }

  takeAgain(strip, image) {
    if (image.upload) return strip.takeKnown({ upload: image.upload }, "image of an earlier shot", null);
    if (!image.job) return false;
    const { job, keyframe } = image;
    return strip.takeKnown(
      { job, keyframe },
      "frame of an earlier shot",
      `/jobs/${job}/keyframes/${keyframe}`,
    );
  }

  async submit() {
    if (this.busy) return;
    this.working(true);
    try {
      const request = await this.request();
      const path = this.kind === "story" ? "/stories" : "/jobs";
      const made = await ask("POST", path, {
        json: request,
        headers: { "Idempotency-Key": this.keyFor(request) },
      });
      this.sent = null;
      clearProblem(this.form, this.strips);
      announce(`Queued: ${short(request.prompt ?? "the story")}`);
      this.made(made);
    } catch (problem) {
      if (problem.status === 401) askForKey("The service makes videos only with an API key.");
      showProblem(this.form, this.inOurWords(problem), this.strips);
    }
    this.working(false);
  }

  /** What is missing the page can say better than the service, which doesn't know the form. */
  inOurWords(problem) {
    if (!(problem instanceof Problem)) return new Problem({ code: "page", detail: String(problem) });
    const missing = {
      "/prompt": !byId("prompt").value && "say what happens in the shot",
      "/script": !byId("script").value && "paste a script, open a file, or start from the example",
      "/memory": !this.memory.images.length && "give at least one image to remember",
      "/first_frame": !this.first.images.length && "choose the image that the shot starts from",
      "/motion_frames": !this.motion.images.length && "choose the five frames that the shot goes on from",
    };
    problem.errors = problem.errors.map(({ pointer, detail }) => ({
      pointer,
      detail: missing[`/${pointer.split("/")[1]}`] || detail,
    }));
    return problem;
  }

  /** Sent again after its answer was lost, the same request has the same key, and is done once. */
  keyFor(request) {
    const text = JSON.stringify(request);
    if (this.sent?.text !== text) this.sent = { text, key: drawKey() };
    return this.sent.key;
  }

  async request() {
    const { start } = this;
    const story = this.kind === "story";
    const request = {
      ...(story ? this.story.request() : { prompt: byId("prompt").value }),
      ...this.settings.request(),
    };
    const memory = await this.memory.refs();
    if (memory.length) request.memory = memory;
    if (story) return request;
    // Asked for and absent is said by the service, at the field.
    if (start === "mi2v") request.first_frame = (await this.first.refs())[0] ?? {};
    if (start === "mm2v") request.motion_frames = await this.motion.refs();
    return request;
  }

  reset() {
    const { kind } = this;
    this.form.reset();
    this.form.kind.value = kind;
    clearProblem(this.form, this.strips);
    Object.values(this.strips).forEach((strip) => strip.clear());
    this.settings.reset();
    this.show();
  }

  /** Only what a bundle here can make. */
  offerStarts() {
    const labels = [...byId("start").querySelectorAll("[data-variant]")];
    for (const label of labels) label.hidden = !this.serves(label.dataset.variant);
    this.several = labels.filter((label) => !label.hidden).length > 1;
    byId("start").addEventListener("change", () => this.show());
  }

  serves(variant) {
    return this.capabilities.variants.some((served) => served.variant === variant);
  }

  get kind() {
    return this.form.kind.value;
  }

  get start() {
    return this.form.start.value;
  }

  /** For a shot that starts in a way. */
  chooseStart(start) {
    this.form.kind.value = "shot";
    if (this.serves(start)) this.form.start.value = start;
    this.show();
  }

  /** Shows what belongs to the choices, and takes their defaults. */
  show() {
    const { kind, start } = this;
    for (const field of this.form.querySelectorAll("[data-kind]")) field.hidden = field.dataset.kind !== kind;
    for (const field of this.form.querySelectorAll("[data-start]"))
      field.hidden ||= field.dataset.start !== start;
    byId("start").hidden ||= !this.several;
    this.working(false);
    const { variants, limits } = this.capabilities;
    const wanted = kind === "story" ? "m2v" : start;
    this.settings.use(variants.find(({ variant }) => variant === wanted) ?? variants[0], limits);
  }

  working(busy) {
    this.busy = busy;
    byId("submit").setAttribute("aria-disabled", busy);
    byId("submit").textContent = busy ? "Sending…" : this.kind === "story" ? "Make story" : "Make video";
  }
}
