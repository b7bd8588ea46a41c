// What jobs are and do, in words.

export const STATUS = {
  queued: "Waiting",
  running: "Being made",
  cancelling: "Stopping",
  succeeded: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

const STAGE = {
  queued: "Waiting",
  loading: "Opening the model",
  text: "Reading the prompt",
  encode: "Encoding the images",
  denoise: "Denoising",
  decode: "Decoding the frames",
  keyframes: "Choosing what to remember",
  mp4: "Writing the video",
};

/** How a shot is made. */
export const VARIANT = { t2v: "from text", m2v: "from memory", mi2v: "from a frame", mm2v: "from motion" };

export const isFinal = (status) => ["succeeded", "failed", "cancelled"].includes(status);

/** "Denoising, 7 of 40 · about 3 min left" */
export function stage({ stage: part, step, steps, eta_seconds: eta }) {
  const count = steps > 1 ? `, ${step} of ${steps}` : "";
  const left = eta === null ? "" : ` · about ${duration(eta)} left`;
  return (STAGE[part] ?? part) + count + left;
}

/** "832×480 · 81 frames · 5.1 s · 40 steps · seed 42 · from memory" */
export function facts({ effective, result }) {
  const { width, height, frames, steps, seed, variant } = effective;
  return [
    width && `${width}×${height}`,
    result ? `${frames} frames, ${duration(result.seconds)}` : `${frames} frames`,
    `${steps} steps`,
    `seed ${seed}`,
    VARIANT[variant] ?? variant,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** "next in line", "3rd in line" */
export function place(position) {
  if (position === null) return "";
  if (position === 1) return "next in line";
  const endings = { one: "st", two: "nd", few: "rd", other: "th" };
  return `${position}${endings[new Intl.PluralRules("en", { type: "ordinal" }).select(position)]} in line`;
}

/** "5.1 s", "3 min", "2 h 5 min" */
export function duration(seconds) {
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** "58 kB" */
export function bytes(count) {
  if (count < 1e6) return `${Math.max(1, Math.round(count / 1e3))} kB`;
  return `${(count / 1e6).toFixed(1)} MB`;
}

/** "today, 14:03" or "2 Dec, 14:03" */
export function time(text) {
  const at = new Date(text);
  const clock = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const day =
    at.toDateString() === new Date().toDateString()
      ? "today"
      : at.toLocaleDateString([], { day: "numeric", month: "short" });
  return `${day}, ${clock}`;
}

/** The beginning of a prompt, for where there is little room. */
export const short = (prompt) => (prompt.length > 60 ? `${prompt.slice(0, 57)}…` : prompt);
