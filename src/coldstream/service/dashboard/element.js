/** Elements, built of text: whatever a service says is put in as text, and never read as markup. */

/** An element with attributes, listeners (`onclick: …`) and children; what is null or false is left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false || value === undefined) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** A span of a class. */
export function span(name, ...children) {
  return element("span", { class: name }, ...children);
}

/** A bar that is so full, from 0 to 1: a picture of the figure beside it. */
export function meter(share, name = null) {
  const filled = element("span", { class: name, style: `width: ${100 * Math.min(share, 1)}%` });
  return element("span", { class: "meter", "aria-hidden": "true" }, filled);
}

export function byId(id) {
  return document.getElementById(id);
}

/** Sets a text only where it differs, so that nothing is laid out or read aloud twice. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** A paragraph in place of what is not there (yet). */
export function state(text) {
  return element("p", { class: "state" }, text);
}

/** A paragraph that says what went wrong. */
export function problem(error) {
  return element("p", { class: "problem", role: "alert" }, error.message);
}
