/** The catalogue, page by page, with a search. */

import { get } from "./api.js";
import { byId, element, problem, setText, span, state } from "./element.js";
import { attributesOf, titleOf } from "./item.js";
import { whole } from "./numbers.js";

const PAGE = 10;
const PAUSE_MS = 250;

export function startCatalogue() {
  let pages = [{ after: 0, before: 0 }]; // those turned so far: where each begins, and how many items came before it
  let following = null;
  let latest = 0;
  let timer = 0;

  async function draw() {
    latest += 1;
    const asked = latest;
    const search = byId("catalogue-search").value.trim();
    const { after, before } = pages.at(-1);
    try {
      const { items, total, next } = await get("/items", { search, limit: PAGE, after });
      if (asked !== latest) return;
      following = next === null ? null : { after: next, before: before + items.length };
      show(items, total, before, search);
      byId("catalogue-previous").disabled = pages.length === 1;
      byId("catalogue-next").disabled = following === null;
    } catch (error) {
      if (asked === latest) byId("catalogue").replaceChildren(problem(error));
    }
  }

  byId("catalogue-search").addEventListener("input", () => {
    pages = [{ after: 0, before: 0 }];
    clearTimeout(timer);
    timer = setTimeout(draw, PAUSE_MS);
  });
  byId("catalogue-previous").addEventListener("click", () => {
    if (pages.length > 1) pages.pop();
    draw();
  });
  byId("catalogue-next").addEventListener("click", () => {
    if (following !== null) pages.push(following);
    draw();
  });
  draw();
}

function show(items, total, before, search) {
  const nothing = search ? `No item has “${search}” in it.` : "The catalogue is empty: no item has been put yet.";
  const none = total === null ? "None on this page; there is more to look through." : nothing;
  byId("catalogue").replaceChildren(items.length ? table(items) : state(none));
  const among = total === null ? "" : ` of ${whole(total)}`; // not known where one page was not enough to count
  const place = `${whole(before + 1)} to ${whole(before + items.length)}${among}`;
  setText(byId("catalogue-place"), items.length ? place : "");
}

function table(items) {
  const titles = ["Item", "Attributes", "Chosen"].map((title) => element("th", { scope: "col" }, title));
  const head = element("thead", {}, element("tr", {}, ...titles));
  return element("table", { class: "catalogue" }, head, element("tbody", {}, ...items.map(row)));
}

function row({ id, attributes, chosen }) {
  const title = titleOf(id, attributes);
  const name = [title, title === id ? null : span("id", id)];
  const known = element("td", {}, ...attributesOf(attributes, title));
  const count = element("td", { class: "figure" }, whole(chosen));
  return element("tr", { "data-testid": "catalogue-item" }, element("th", { scope: "row" }, ...name), known, count);
}
