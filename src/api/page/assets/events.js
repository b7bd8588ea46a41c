// Server-sent events over `fetch`: `EventSource` can't send an API key.

import { call } from "./api.js";

const RECONNECT_MS = 2000;

/**
 * Follows a stream until its `end`, connecting again where it broke off.
 * @param {string} path
 * @param {(name: string, data: any) => void} on  is called with each event
 * @param {AbortSignal} signal  ends it early
 */
export async function follow(path, on, signal) {
  let last = null;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const answer = await call("GET", path, { headers, signal });
      // No content: it had ended with the event we have.
      if (answer.status === 204) return;
      for await (const { id, event, data } of events(answer.body)) {
        last = id ?? last;
        on(event, JSON.parse(data));
        if (event === "end") return;
      }
    } catch (problem) {
      // Gone or forbidden stays so; the list says why. Anything else may pass.
      if (problem.name === "AbortError" || (problem.status >= 400 && problem.status < 500)) return;
    }
    await pause(RECONNECT_MS, signal);
  }
}

/** The events in a stream of bytes. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value.replaceAll("\r", "");
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const event = parse(block);
        if (event.data !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block) {
  const event = { id: null, event: "message", data: null };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const [name, value] =
      colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
    if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
    else if (name in event) event[name] = value;
  }
  return event;
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
