/** Look closer at features: the nearest to one, and the most changed. */

import { get } from "./api.js";
import { byId, element, meter, problem, span, state } from "./element.js";
import { fixed, magnitude, whole } from "./numbers.js";
import { suggest } from "./suggestions.js";

const MOST = 10;

export function startFeatures() {
  suggest(byId("feature"), byId("features"), "/features", "features");
  byId("nearest-form").addEventListener("submit", (submitted) => {
    submitted.preventDefault();
    drawNearest(byId("feature").value.trim());
  });
  byId("changed-again").addEventListener("click", drawChanged);
  byId("find").disabled = false;
  byId("changed-again").disabled = false;
  drawChanged();
}

async function drawNearest(feature) {
  const place = byId("nearest");
  place.setAttribute("aria-busy", "true");
  try {
    const { nearest } = await get("/features/nearest", { feature, n: MOST });
    const rows = nearest.map(({ feature: name, similarity }) => row(name, similarity, fixed(similarity, 2)));
    const about = `Nearest to ${feature}, by the cosine of their factors.`;
    show(place, rows, about, `Nothing to compare with ${feature} yet.`);
  } catch (error) {
    place.replaceChildren(problem(error));
  }
  place.removeAttribute("aria-busy");
}

async function drawChanged() {
  const place = byId("changed");
  try {
    const { since_events: events, changed } = await get("/features/changed", { n: MOST });
    const most = Math.max(...changed.map(({ change }) => Math.abs(change)), 1e-12);
    const rows = changed.map(({ feature: name, change }) => row(name, Math.abs(change) / most, magnitude(Math.abs(change))));
    const about = `How far each moved in the last ${whole(events)} events.`;
    show(place, rows, about, "Nothing has changed yet.");
  } catch (error) {
    place.replaceChildren(problem(error));
  }
}

function show(place, rows, about, nothing) {
  const shown = [element("p", { class: "hint" }, about), element("ol", { class: "bars" }, ...rows)];
  place.replaceChildren(...(rows.length ? shown : [state(nothing)]));
}

/** A feature with a bar; a press on it shows its neighbours. */
function row(name, share, figure) {
  const look = { type: "button", class: "name", title: "Show its neighbours", onclick: () => lookAt(name) };
  const bar = meter(Math.abs(share), share < 0 ? "down" : null);
  return element("li", { "data-testid": "feature-row" }, element("button", look, name), bar, span("figure", figure));
}

function lookAt(name) {
  byId("feature").value = name;
  drawNearest(name);
}
