// The settings that shots and stories share: their defaults come from the service, and only what differs is asked for.

import { byId, el, setText } from "./dom.js";
import { duration } from "./words.js";

const OTHER = "other";

/** Frames that are generated but known before, and not part of the video. */
const DROPPED = { mi2v: 1, mm2v: 5 };

/** Controls whose value is one of the request, by the name there. */
const NUMBERS = { frames: "frames", steps: "steps", seed: "seed", shift: "shift", priority: "priority" };

export class Settings {
  constructor() {
    this.served = { defaults: null };
    byId("size").addEventListener("change", () => this.showOwnSize());
    byId("frames").addEventListener("input", () => this.showSeconds());
  }

  /**
   * Takes the defaults of a variant. What is as it was by default changes along, what was set stays.
   * @param {object} served  an entry of `variants` of `GET /capabilities`
   * @param {object} limits
   */
  use(served, limits) {
    if (served === this.served) return;
    const before = this.served.defaults && this.values();
    const old = this.served.defaults;
    this.served = served;
    this.listSizes(limits);
    byId("frames").max = limits.frames;
    byId("negative-prompt").placeholder = served.defaults.negative_prompt;
    const kept = before
      ? Object.fromEntries(Object.entries(before).filter(([name, value]) => !same(value, old[name])))
      : {};
    this.fill({ ...served.defaults, negative_prompt: "", ...kept });
  }

  /** Puts values into the controls. */
  fill(values) {
    for (const [name, id] of Object.entries(NUMBERS)) if (name in values) byId(id).value = values[name] ?? "";
    if ("size" in values) this.fillSize(values.size);
    if ("guidance_scale" in values) {
      byId("guidance-high").value = values.guidance_scale.high;
      byId("guidance-low").value = values.guidance_scale.low;
    }
    for (const [name, id] of [
      ["solver", "solver"],
      ["fit", "fit"],
      ["negative_prompt", "negative-prompt"],
    ]) {
      if (name in values) byId(id).value = values[name];
    }
    this.showSeconds();
  }

  /** The part of a request that differs from what the service would do by itself. */
  request() {
    const defaults = { ...this.served.defaults, solver: "unipc", fit: "size", priority: 0 };
    return Object.fromEntries(
      Object.entries(this.values()).filter(([name, value]) => !same(value, defaults[name])),
    );
  }

  /** Back to the defaults. */
  reset() {
    this.fill({
      solver: "unipc",
      fit: "size",
      seed: "",
      priority: "",
      ...this.served.defaults,
      negative_prompt: "",
    });
    byId("more").open = false;
  }

  values() {
    const values = { size: this.size(), solver: byId("solver").value, fit: byId("fit").value };
    for (const [name, id] of Object.entries(NUMBERS)) values[name] = number(byId(id));
    const guidance = { high: number(byId("guidance-high")), low: number(byId("guidance-low")) };
    if (guidance.high !== undefined || guidance.low !== undefined) values.guidance_scale = guidance;
    values.negative_prompt = byId("negative-prompt").value.trim() || undefined;
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  }

  size() {
    const { value } = byId("size");
    return value === OTHER ? `${byId("width").value}x${byId("height").value}` : value;
  }

  listSizes({ frame_pixels: most }) {
    const [width, height] = this.served.defaults.size.split("x").map(Number);
    const side = Math.round(Math.sqrt(width * height) / 16) * 16;
    const sizes = [
      [width, height],
      [height, width],
      [side, side],
      [1280, 720],
      [720, 1280],
    ];
    const fitting = sizes.filter(([w, h]) => w * h <= most).map(([w, h]) => `${w}x${h}`);
    const options = [...new Set(fitting)].map((size) => el("option", { value: size }, sizeWords(size)));
    byId("size").replaceChildren(...options, el("option", { value: OTHER }, "another…"));
  }

  fillSize(size) {
    const select = byId("size");
    const listed = [...select.options].some((option) => option.value === size);
    select.value = listed ? size : OTHER;
    if (!listed) [byId("width").value, byId("height").value] = size.split("x");
    this.showOwnSize();
  }

  showOwnSize() {
    const own = byId("size").value === OTHER;
    byId("own-size").hidden = !own;
    if (own && !byId("width").value)
      [byId("width").value, byId("height").value] = this.served.defaults.size.split("x");
  }

  showSeconds() {
    const frames = number(byId("frames")) - (DROPPED[this.served.variant] ?? 0);
    setText(byId("seconds"), frames > 0 ? duration(frames / this.served.fps) : "");
  }
}

/** The value of a control; what is no number goes to the service as it is, which says what is wrong with it. */
function number(control) {
  if (control.validity.badInput) return control.value || "?";
  return control.value === "" ? undefined : Number(control.value);
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function sizeWords(size) {
  const [width, height] = size.split("x").map(Number);
  const shape = width > height ? "wide" : width < height ? "tall" : "square";
  return `${width}×${height}, ${shape}`;
}
