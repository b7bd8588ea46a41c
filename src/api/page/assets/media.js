// Pictures and videos of jobs. With an API key they can't be named as addresses, for a browser sends no key with those:
// they are fetched and held as blobs.

import { call } from "./api.js";
import { el } from "./dom.js";
import { key, onKeyChange } from "./key.js";

const held = new Map();
onKeyChange(() => [...held.keys()].forEach(release));

/** What an `<img>` or `<video>` can show for a path of the service. */
export async function source(path) {
  if (!key()) return path;
  if (!held.has(path))
    held.set(
      path,
      fetchBlob(path).then(({ blob }) => URL.createObjectURL(blob)),
    );
  try {
    return await held.get(path);
  } catch (error) {
    held.delete(path);
    throw error;
  }
}

/** Lets go of what was held for a path. */
export function release(path) {
  const address = held.get(path);
  held.delete(path);
  // One that never came has nothing to be let go of.
  address?.then(URL.revokeObjectURL, () => {});
}

/** Saves a file of the service under the name that the service gives it. */
export async function save(path) {
  if (!key()) return download(path, "");
  const { blob, name } = await fetchBlob(path);
  const address = URL.createObjectURL(blob);
  download(address, name);
  // The download has its own hold on the blob once it has begun.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const download = (href, name) => el("a", { href, download: name }).click();

async function fetchBlob(path) {
  const answer = await call("GET", path);
  const encoded = /filename\*=UTF-8''([^;]+)/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1];
  return { blob: await answer.blob(), name: encoded ? decodeURIComponent(encoded) : "storymem" };
}
