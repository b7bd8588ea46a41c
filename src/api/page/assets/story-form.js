// The part of the form that only stories have: the script, and how its shots hang together.

import { byId, el } from "./dom.js";

const EXAMPLE = {
  story_name: "The keeper",
  scenes: [
    {
      scene_num: 1,
      video_prompts: [
        "An old lighthouse keeper in a yellow coat climbs a spiral staircase, lantern in hand, warm light on the walls.",
        "The keeper reaches the lamp room and looks out over the grey sea, his hand on the brass rail.",
      ],
      cut: [true, false],
    },
    {
      scene_num: 2,
      video_prompts: ["From a boat far below, the lighthouse begins to shine; waves roll in the foreground."],
      cut: [true],
    },
  ],
};

export class StoryForm {
  /** @param {string[]} variants  that the service makes */
  constructor(variants) {
    const option = (value, text) => el("option", { value }, text);
    byId("connect").append(
      option("none", "from memory alone"),
      ...(variants.includes("mi2v") ? [option("mi2v", "from the last frame")] : []),
      ...(variants.includes("mm2v") ? [option("mm2v", "from the last five frames")] : []),
    );
    byId("first-shot").append(
      ...(variants.includes("t2v")
        ? [option("", "by what there is"), option("t2v", "from its prompt alone")]
        : []),
      option("memory", "from the frames to remember"),
    );
    byId("script-example").addEventListener("click", () => {
      byId("script").value = JSON.stringify(EXAMPLE, null, 2);
      byId("script").focus();
    });
    byId("script-file").addEventListener("change", async ({ target }) => {
      byId("script").value = await target.files[0].text();
      target.value = "";
      byId("script").focus();
    });
  }

  /** Its part of a request. The script goes as it is written: the service reads JSON5, and says where it is wrong. */
  request() {
    const connect = byId("connect").value;
    const first = byId("first-shot").value;
    return {
      script: byId("script").value,
      ...(connect !== "none" && { connect }),
      ...(first && { first_shot: first }),
    };
  }
}
