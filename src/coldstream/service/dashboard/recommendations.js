/** The recommended items, which show how they moved since the list before. */

import { post } from "./api.js";
import { byId, element, problem, span, state } from "./element.js";
import { itemName, titleOf } from "./item.js";
import { fixed } from "./numbers.js";
import { whyPanel } from "./why.js";

const NOTHING = "Nothing to recommend: the catalogue has no item that this user could still be shown.";
const WRITES = "Writes: the service logs this choice and learns from it for good";
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** What became of a list: for every item how far it rose (null if it entered), and those that left. */
export function compared(before, after) {
  const ranks = new Map(before.map(({ item }, rank) => [item, rank]));
  const rises = new Map(after.map(({ item }, rank) => [item, ranks.has(item) ? ranks.get(item) - rank : null]));
  return { rises, left: before.map(({ item }) => item).filter((item) => !rises.has(item)) };
}

/** A comparison in one sentence. */
export function summary({ rises, left }) {
  const values = [...rises.values()];
  const moved = values.filter((rise) => rise).length;
  const entered = values.filter((rise) => rise === null).length;
  if (!moved && !entered && !left.length) return "The order stays as it was.";
  return `${moved} moved, ${entered} entered, ${left.length} left.`;
}

export class Recommendations {
  #list = byId("recommendations");
  #items = [];
  #asked = null;
  #open = null;
  #titles = new Map();
  #interact;

  /** `interact(item)` is called when somebody chooses one. */
  constructor(interact) {
    this.#interact = interact;
  }

  /** Shows what was recommended for `asked`. For the same user as before, returns how the list changed, otherwise null. */
  show(items, asked) {
    const again = this.#asked?.user === asked.user && this.#items.length > 0;
    const change = again ? compared(this.#items, items) : null;
    const places = this.#places();
    const focused = this.#focused();
    if (!again || !items.some(({ item }) => item === this.#open)) this.#open = null;
    [this.#items, this.#asked] = [items, asked];
    for (const { item, attributes } of items) this.#titles.set(item, titleOf(item, attributes));
    this.#list.replaceChildren(...items.map((entry, rank) => this.#row(entry, rank, change?.rises.get(entry.item))));
    byId("recommendations-state").hidden = items.length > 0;
    byId("recommendations-state").textContent = NOTHING;
    byId("writes").hidden = !items.length;
    this.#showLeft(change?.left ?? []);
    this.#glide(places);
    if (focused) this.#list.children[focused.rank]?.querySelector(focused.button).focus({ preventScroll: true });
    if (this.#open) this.#explain(this.#open);
    return change;
  }

  set busy(value) {
    this.#list.setAttribute("aria-busy", value);
  }

  /** What an item is called that was in the list. */
  titleOf(item) {
    return this.#titles.get(item) ?? item;
  }

  #row({ item, score, attributes }, rank, rise) {
    const panel = `why-${rank}`;
    const title = this.titleOf(item);
    const folded = { "aria-expanded": "false", "aria-controls": panel };
    const why = { ...folded, "aria-label": `Why ${title}`, onclick: () => this.#toggle(item) };
    const choose = { title: WRITES, "aria-describedby": "writes", onclick: () => this.#interact(item) };
    return element(
      "li",
      { "data-testid": "recommendation", "data-item": item, class: moveClass(rise) },
      span("rank", String(rank + 1)),
      element("span", { class: "name", "data-testid": "item-name" }, ...itemName(item, attributes)),
      element("span", { class: "move", "data-testid": "move" }, moveText(rise)),
      element("span", { class: "figure", "data-testid": "score" }, fixed(score, 3)),
      this.#bar(score),
      span(
        "actions",
        element("button", { type: "button", "data-testid": "why-button", ...why }, "Why"),
        element("button", { type: "button", "data-testid": "interact", ...choose }, "Choose & learn", unseen(` ${title}`)),
      ),
      element("div", { id: panel, class: "panel", hidden: true }),
    );
  }

  /** From zero to the score, on one scale for the whole list; what is below zero goes to the left. */
  #bar(score) {
    const scores = this.#items.map((entry) => entry.score);
    const [low, high] = [Math.min(0, ...scores), Math.max(0, ...scores)];
    const place = (value) => (100 * (value - low)) / (high - low || 1);
    const [from, to] = [place(Math.min(0, score)), place(Math.max(0, score))];
    const filled = element("span", { class: score < 0 ? "below" : null, style: `left: ${from}%; width: ${to - from}%` });
    const origin = low < 0 ? element("i", { style: `left: ${place(0)}%` }) : null;
    return element("span", { class: "scored", "aria-hidden": "true", "data-testid": "score-bar" }, filled, origin);
  }

  #toggle(item) {
    const was = this.#open;
    if (was !== null) this.#fold(was);
    if (was === item) return;
    this.#open = item;
    this.#explain(item);
  }

  #fold(item) {
    const { row, panel } = this.#find(item) ?? {};
    this.#open = null;
    if (!row) return;
    panel.hidden = true;
    row.querySelector("[aria-expanded]").setAttribute("aria-expanded", "false");
  }

  async #explain(item) {
    const { row, panel, score } = this.#find(item);
    row.querySelector("[aria-expanded]").setAttribute("aria-expanded", "true");
    panel.hidden = false;
    panel.replaceChildren(state("Asking why…"));
    const { user, context, attributes } = this.#asked;
    try {
      const answer = await post("/explain", { user, item, context, ...(attributes && { attributes }) });
      panel.replaceChildren(whyPanel(answer, score));
    } catch (error) {
      panel.replaceChildren(problem(error));
    }
  }

  #find(item) {
    const rank = this.#items.findIndex((entry) => entry.item === item);
    if (rank < 0) return null;
    const row = this.#list.children[rank];
    return { row, panel: row.querySelector(".panel"), score: this.#items[rank].score };
  }

  #showLeft(items) {
    const place = byId("left");
    place.hidden = !items.length;
    const gone = items.map((item) => element("span", { "data-testid": "left-item" }, this.titleOf(item)));
    place.replaceChildren("Left the list: ", ...gone);
  }

  /** The button that has the keyboard, by the rank of its row; the rows are about to be replaced. */
  #focused() {
    const rank = [...this.#list.children].findIndex((row) => row.contains(document.activeElement));
    if (rank < 0) return null;
    const why = document.activeElement.closest("[aria-expanded]");
    return { rank, button: why ? "[aria-expanded]" : "[data-testid=interact]" };
  }

  #places() {
    return new Map([...this.#list.children].map((row) => [row.dataset.item, row.getBoundingClientRect().top]));
  }

  /** Lets every row come from where it was. */
  #glide(places) {
    if (calm.matches || !places.size) return;
    for (const row of this.#list.children) {
      const from = places.get(row.dataset.item);
      const way = from === undefined ? 0 : from - row.getBoundingClientRect().top;
      const start = from === undefined ? { opacity: 0 } : { transform: `translateY(${way}px)` };
      if (from === undefined || way) row.animate([start, {}], { duration: 450, easing: "cubic-bezier(.2, .7, .2, 1)" });
    }
  }
}

function unseen(text) {
  return span("unseen", text);
}

function moveClass(rise) {
  if (rise === undefined || rise === 0) return null;
  if (rise === null) return "entered";
  return rise > 0 ? "rose" : "fell";
}

function moveText(rise) {
  if (rise === undefined || rise === 0) return "";
  if (rise === null) return "new";
  return rise > 0 ? `▲ ${rise}` : `▼ ${-rise}`;
}
