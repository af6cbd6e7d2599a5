/** Suggestions for an input while somebody types. */

import { get } from "./api.js";
import { element } from "./element.js";

const PAUSE_MS = 200;
const MOST = 20;

/** Fills the input's list with what `path` finds, and tells `found(names, typed)`. */
export function suggest(input, list, path, kind, found = () => {}) {
  let timer = 0;
  let latest = 0;
  async function ask() {
    latest += 1;
    const asked = latest;
    const typed = input.value.trim();
    try {
      const names = (await get(path, { search: typed, limit: MOST }))[kind];
      if (asked !== latest) return;
      list.replaceChildren(...names.map((value) => element("option", { value })));
      found(names, typed);
    } catch {
      // Suggestions are a courtesy: whoever types on does not need them.
    }
  }
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  };
  input.addEventListener("input", soon);
  input.addEventListener("focus", soon);
  return ask;
}
