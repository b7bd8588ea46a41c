// The queue: asked for again and again, which is the truth, and followed live where something is being made.

import { byId, el, say, setText } from "./dom.js";
import { follow } from "./events.js";
import { Feed } from "./feed.js";
import { JobCard } from "./job-card.js";
import { askForKey, key, onKeyChange } from "./key.js";
import { StoryCard, wholeStory } from "./story-card.js";
import { isFinal } from "./words.js";

const BUSY_MS = 2000;
const IDLE_MS = 10_000;

/** Streams at once: over HTTP/1.1 a browser has six connections to a service, and needs the others for its calls. */
const STREAMS = 2;

export class Queue {
  /**
   * @param {import("./job-card.js").Wishes} wishes  what cards ask of the page; `refresh` is seen to here
   * @param {boolean} startsFromFrames  whether the service can begin with a frame
   */
  constructor(wishes, startsFromFrames) {
    const all = { ...wishes, refresh: () => this.refresh() };
    this.jobs = new Feed({
      path: "/jobs",
      list: byId("jobs"),
      limit: 50,
      card: () => new JobCard(all, startsFromFrames),
      // Shots of stories are shown there.
      wanted: (job) => !job.story,
    });
    this.stories = new Feed({
      path: "/stories",
      list: byId("stories"),
      limit: 10,
      card: () => new StoryCard(all),
      complete: wholeStory,
    });
    this.feeds = [this.jobs, this.stories];
    this.streams = new Map();
    byId("filter").addEventListener("change", () => this.restart());
    byId("older").addEventListener("click", () => {
      for (const feed of this.feeds) feed.pages += 1;
      this.refresh();
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.refresh()));
    onKeyChange(() => this.restart());
  }

  /** Looks at the queue now, and then again in a while. */
  async refresh() {
    clearTimeout(this.timer);
    // Of several looks at once only the last one counts.
    const look = (this.look = Symbol("look"));
    try {
      const found = await Promise.all(this.feeds.map((feed) => feed.fetch(byId("filter").value)));
      if (this.look !== look) return;
      this.show(found);
      say(byId("queue-notice"), "");
    } catch (problem) {
      if (this.look !== look) return;
      this.complain(problem);
    }
    if (!document.hidden) this.timer = setTimeout(() => this.refresh(), this.busy ? BUSY_MS : IDLE_MS);
  }

  show(found) {
    found.forEach(({ items }, i) => this.feeds[i].show(items));
    byId("empty").hidden = found.some(({ items }) => items.length > 0);
    byId("older").hidden = !found.some(({ more }) => more);
    this.count();
    this.followSome();
  }

  /** Everything that has not ended, with the path of its events. */
  unfinished() {
    const items = this.feeds.flatMap((feed) =>
      [...feed.cards.values()].map((card) => ({ card, item: card.item })),
    );
    return items.filter(({ item }) => !isFinal(item.status));
  }

  count() {
    const unfinished = this.unfinished();
    const waiting = unfinished.filter(({ item }) => item.status === "queued").length;
    const running = unfinished.length - waiting;
    this.busy = unfinished.length > 0;
    setText(byId("counts"), this.busy ? `${running} being made, ${waiting} waiting` : "");
    document.title = running ? "▶ StoryMem" : "StoryMem";
  }

  /** Follows what is being made, and what will be next. */
  followSome() {
    const place = ({ item }) => item.queue_position ?? (item.status === "queued" ? Infinity : 0);
    const first = this.unfinished()
      .sort((a, b) => place(a) - place(b))
      .slice(0, STREAMS);
    for (const card of this.streams.keys()) if (!first.some((other) => other.card === card)) this.leave(card);
    for (const { card, item } of first) if (!this.streams.has(card)) this.follow(card, item.links.events);
  }

  async follow(card, path) {
    const stop = new AbortController();
    this.streams.set(card, stop);
    await follow(path, (name, data) => this.take(card, name, data), stop.signal);
    if (this.streams.get(card) === stop) this.streams.delete(card);
  }

  take(card, name, data) {
    // The list may have told of the end before.
    if (isFinal(card.item.status)) return;
    card.take(name, data);
    this.count();
    if (name === "end") this.refresh();
  }

  leave(card) {
    this.streams.get(card).abort();
    this.streams.delete(card);
  }

  /** Lets go of all that goes on, for as long as nobody looks. */
  rest() {
    clearTimeout(this.timer);
    for (const card of this.streams.keys()) this.leave(card);
  }

  /** Another key or another filter: from the beginning. */
  restart() {
    this.rest();
    for (const feed of this.feeds) feed.clear();
    return this.refresh();
  }

  complain(problem) {
    const notice = byId("queue-notice");
    byId("empty").hidden = true;
    if (problem.status !== 401) return say(notice, `${problem.words ?? problem.message}. Trying again…`);
    say(
      notice,
      key() ? "The API key is not known here. " : "This service takes requests only with an API key. ",
    );
    // Said again, the words and the button are still there.
    if (!notice.querySelector("button"))
      notice.append(
        el("button", { type: "button", class: "link", onclick: () => askForKey() }, "Enter a key"),
      );
  }
}
