// A list of the service, page by page, and a card for each thing in it.

import { ask } from "./api.js";

/**
 * A card of a feed: `element`, `item`, `update(item)`, `take(event, data)` and `leave()`.
 * @typedef {object} FeedCard
 */

export class Feed {
  /**
   * @param {object} options
   * @param {string} options.path  of the list, and with an id of a thing in it
   * @param {HTMLElement} options.list  where the cards go
   * @param {number} options.limit  things of a page
   * @param {() => FeedCard} options.card  makes a card
   * @param {(item: object) => boolean} [options.wanted]  whether a thing gets one
   * @param {(item: object, card?: FeedCard) => Promise<object>} [options.complete]  what a card shows of an entry
   */
  constructor({ path, list, limit, card, wanted = () => true, complete = async (item) => item }) {
    Object.assign(this, { path, list, limit, make: card, wanted, complete, cards: new Map(), pages: 1 });
  }

  /** What the service has now. */
  async fetch(status) {
    const items = [];
    let cursor = null;
    for (let page = 0; page < this.pages; page += 1) {
      const query = new URLSearchParams({
        limit: this.limit,
        ...(status && { status }),
        ...(cursor && { cursor }),
      });
      const { items: some, next_cursor: next } = await ask("GET", `${this.path}?${query}`);
      items.push(...some.filter(this.wanted));
      cursor = next;
      if (!cursor) break;
    }
    const complete = await Promise.all(items.map((item) => this.complete(item, this.cards.get(item.id))));
    return { items: complete, more: cursor !== null };
  }

  /** Brings the cards in line with it. */
  show(items) {
    const there = new Set(items.map(({ id }) => id));
    for (const id of this.cards.keys()) if (!there.has(id)) this.drop(id);
    items.forEach((item, i) => {
      if (!this.cards.has(item.id)) this.cards.set(item.id, this.make());
      const card = this.cards.get(item.id);
      card.update(item);
      if (this.list.children[i] !== card.element)
        this.list.insertBefore(card.element, this.list.children[i] ?? null);
    });
  }

  clear() {
    for (const id of this.cards.keys()) this.drop(id);
    this.pages = 1;
  }

  drop(id) {
    this.cards.get(id).leave();
    this.cards.delete(id);
  }
}
