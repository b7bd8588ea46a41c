// Puts the page together.

import { byId } from "./dom.js";
import { setUpKey } from "./key.js";
import { Maker } from "./maker.js";
import { Queue } from "./queue.js";
import { capabilities, watchService } from "./service.js";

setUpKey();
watchService();
const can = await capabilities();

byId("random").hidden = !can.variants.every(({ random_weights: random }) => random);
const maker = new Maker(can, () => queue.refresh());
const queue = new Queue(
  {
    reuse: (job) => maker.reuse(job),
    goOn: (job) => maker.goOn(job),
    remember: (job) => maker.remember(job),
  },
  maker.serves("mi2v"),
);
queue.refresh();

document.addEventListener("paste", (event) => {
  const { files, types } = event.clipboardData;
  // Some programs copy a picture of text along with it.
  if (files.length && !types.includes("text/plain")) maker.memory.take(files);
});

// A file that is dropped beside its place must not be opened in place of the page.
for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());

byId("maker").classList.add("ready");
