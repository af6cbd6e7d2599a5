/** The catalogue, page by page, with a search. */

import { get } from "./api.js";
import { byId, element, problem, setText, span, state } from "./element.js";
import { attributesOf, titleOf } from "./item.js";
import { whole } from "./numbers.js";

const PAGE = 10;
const PAUSE_MS = 250;

export function startCatalogue() {
  let offset = 0;
  let latest = 0;
  let timer = 0;

  async function draw() {
    latest += 1;
    const asked = latest;
    const search = byId("catalogue-search").value.trim();
    try {
      const { items, total } = await get("/items", { search, limit: PAGE, offset });
      if (asked !== latest) return;
      show(items, total, offset, search);
    } catch (error) {
      if (asked === latest) byId("catalogue").replaceChildren(problem(error));
    }
  }

  function turn(by) {
    offset = Math.max(0, offset + by);
    draw();
  }

  byId("catalogue-search").addEventListener("input", () => {
    offset = 0;
    clearTimeout(timer);
    timer = setTimeout(draw, PAUSE_MS);
  });
  byId("catalogue-previous").addEventListener("click", () => turn(-PAGE));
  byId("catalogue-next").addEventListener("click", () => turn(PAGE));
  draw();
}

function show(items, total, offset, search) {
  const nothing = search ? `No item has “${search}” in it.` : "The catalogue is empty: no item has been put yet.";
  byId("catalogue").replaceChildren(items.length ? table(items) : state(nothing));
  byId("catalogue-previous").disabled = offset === 0;
  byId("catalogue-next").disabled = offset + items.length >= total;
  const place = `${whole(offset + 1)} to ${whole(offset + items.length)} of ${whole(total)}`;
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
