// Uses the types that openapi-typescript generates with openapi-fetch. Arguments: the service's address, a key, a PNG.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

import createClient from "openapi-fetch";

import type { components, paths } from "./storymem.js";

type Job = components["schemas"]["Job"];

const [base, key, path] = process.argv.slice(2) as [string, string, string];
const image = await readFile(path);
const client = createClient<paths>({ baseUrl: base, headers: { Authorization: `Bearer ${key}` } });
const data = `data:image/png;base64,${image.toString("base64")}`;

// By JSON.
const created = await client.POST("/jobs", {
  body: { prompt: "A lighthouse at dusk", memory: [{ data }], size: "64x64", steps: 2, seed: 7, solver: "dpm++" },
});
assert.equal(created.response.status, 202);
assert.ok(created.data);

// By a form, with files: openapi-fetch leaves it to us to write one.
const form = new FormData();
form.append("request", JSON.stringify({ prompt: "A lighthouse at dawn", size: "64x64", steps: 2 }));
form.append("memory", new Blob([image], { type: "image/png" }), "memory.png");
const second = await client.POST("/jobs", { body: { prompt: "" }, bodySerializer: () => form });
assert.ok(second.data && second.data.id !== created.data.id);

// Its events, to the end.
const events = await client.GET("/jobs/{id}/events", { params: { path: { id: created.data.id } }, parseAs: "stream" });
let text = "";
for await (const chunk of events.data as unknown as AsyncIterable<Uint8Array>) text += Buffer.from(chunk).toString();
assert.match(text, /^event: end$/m);

const { data: job } = await client.GET("/jobs/{id}", { params: { path: { id: created.data.id } } });
assert.ok(job && job.status === "succeeded" && job.effective.seed === 7 && job.result, JSON.stringify(job));
const video = await client.GET("/jobs/{id}/video", { params: { path: { id: job.id } }, parseAs: "arrayBuffer" });
const bytes = Buffer.from(video.data as unknown as ArrayBuffer);
assert.equal(bytes.subarray(4, 8).toString(), "ftyp");
assert.equal(bytes.length, job.result.bytes);

// Cancel, and the code of an error.
const long = await client.POST("/jobs", { body: { prompt: "Long", memory: [{ data }], size: "320x192", steps: 100 } });
assert.ok(long.data);
const cancelled = await client.POST("/jobs/{id}/cancel", { params: { path: { id: long.data.id } } });
const ends: Job["status"][] = ["cancelled", "cancelling"];
assert.ok(cancelled.data && ends.includes(cancelled.data.status));
const wrong = await client.POST("/jobs", { body: { prompt: "", memory: [{ data }], steps: 0 } });
assert.equal(wrong.error?.code, "validation_failed");
assert.deepEqual(wrong.error.errors?.map((error) => error.pointer).sort(), ["/prompt", "/steps"]);
