// Whether the service is up, and what it can do.

import { ask } from "./api.js";
import { byId, setText } from "./dom.js";

const LOOK_MS = 15_000;

/** What the service can make. Asked for until there is an answer. */
export async function capabilities() {
  for (;;) {
    try {
      return await ask("GET", "/capabilities");
    } catch (problem) {
      tell("down", problem.words);
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
}

/** Looks now and then whether the service is ready, and says so on top. */
export async function watchService() {
  try {
    const { workers } = await ask("GET", "/readyz");
    const devices = [...new Set(workers.map(({ device }) => device))].join(", ");
    tell("ready", `${workers.length === 1 ? "1 worker" : `${workers.length} workers`} on ${devices}`);
  } catch (problem) {
    tell(
      problem.status ? "waiting" : "down",
      problem.status ? `Not ready: ${problem.message.replaceAll("`", "")}` : problem.words,
    );
  }
  setTimeout(watchService, document.hidden ? 4 * LOOK_MS : LOOK_MS);
}

function tell(state, text) {
  byId("service").dataset.state = state;
  setText(byId("service"), text);
}
