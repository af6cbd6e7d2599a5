/** An item as people know it: by its title, with its id and its attributes beneath. */

import { element, span } from "./element.js";

const TITLES = ["title", "name"];

/** The title that its attributes give it, otherwise its id. */
export function titleOf(id, attributes = {}) {
  const given = TITLES.map((name) => attributes[name]).find((value) => typeof value === "string" && value.trim());
  return given ?? id;
}

/** The title, the id where it is another, and the attributes. */
export function itemName(id, attributes = {}) {
  const title = titleOf(id, attributes);
  const shown = [title === id ? null : span("id", id), ...attributesOf(attributes, title)];
  const beneath = shown.some(Boolean) ? span("about", ...shown) : null;
  return [span("title", title), beneath];
}

/** The attributes, each with its name, without the one that is the title. */
export function attributesOf(attributes, title = null) {
  return Object.entries(attributes)
    .filter(([name, value]) => !(TITLES.includes(name) && value === title))
    .map(([name, value]) => span("attribute", element("span", {}, name), ` ${written(value)}`));
}

function written(value) {
  return Array.isArray(value) ? value.join(", ") : String(value);
}
