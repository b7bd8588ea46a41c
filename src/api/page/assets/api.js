// Calls to the service. Whatever goes wrong is a `Problem` with words for people.

import { key } from "./key.js";

/** An error, as the service or this page says it (RFC 9457). */
export class Problem extends Error {
  /**
   * @param {object} document  with `code` and `detail`, and where there are, `title`, `status` and `errors`
   * @param {number | null} retryAfter  seconds
   */
  constructor(document, retryAfter = null) {
    super(document.detail || document.title);
    Object.assign(this, {
      code: document.code,
      status: document.status ?? 0,
      errors: document.errors ?? [],
      retryAfter,
    });
  }

  /** All of it in one text. */
  get words() {
    const wait = this.retryAfter && this.status === 429 ? `; try again in ${this.retryAfter} seconds` : "";
    return this.message + wait;
  }
}

/**
 * Calls the service, and gives the answer once it is one of success.
 * @param {string} method
 * @param {string} path
 * @param {{json?: unknown, body?: BodyInit, headers?: Record<string, string>, signal?: AbortSignal}} options
 */
export async function call(method, path, { json, body, headers = {}, signal } = {}) {
  const all = { ...headers };
  if (json !== undefined) all["Content-Type"] = "application/json";
  if (key()) all.Authorization = `Bearer ${key()}`;
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: all,
      body: json === undefined ? body : JSON.stringify(json),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ code: "unreachable", detail: "the service can't be reached; is it running?" });
  }
  if (answer.ok || answer.status === 304) return answer;
  throw await problemOf(answer);
}

/** Calls the service for JSON. */
export const ask = async (method, path, options) => (await call(method, path, options)).json();

async function problemOf(answer) {
  const retryAfter = Number(answer.headers.get("Retry-After")) || null;
  try {
    return new Problem(await answer.json(), retryAfter);
  } catch {
    // Not the service's own: a proxy in between.
    return new Problem(
      {
        code: "unknown",
        status: answer.status,
        detail: `the answer was ${answer.status} ${answer.statusText}`,
      },
      retryAfter,
    );
  }
}

/** A key that makes sending the same request twice safe. */
export function drawKey() {
  // `randomUUID` is missing where the page came over plain HTTP.
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
