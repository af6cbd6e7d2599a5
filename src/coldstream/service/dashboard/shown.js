/** Click-through: how often what was shown at each place of a list was taken. */

import { get } from "./api.js";
import { byId, element, meter, problem, span, state } from "./element.js";
import { percent, whole } from "./numbers.js";

const MOST = 20;

export function startShown() {
  byId("shown-again").addEventListener("click", drawShown);
  byId("shown-again").disabled = false;
  drawShown();
}

async function drawShown() {
  const place = byId("shown");
  try {
    const { positions = [] } = await get("/evaluation");
    place.replaceChildren(...(positions.length ? drawn(positions.slice(0, MOST)) : [nothing()]));
  } catch (error) {
    place.replaceChildren(problem(error));
  }
}

function drawn(positions) {
  const most = Math.max(...positions.map(share), 1e-12);
  const lists = `${whole(positions[0].shown)} lists were shown and remembered. Taken at each place of them:`;
  const rows = positions.map((one) => {
    const counts = `${whole(one.taken)} of ${whole(one.shown)}`;
    const name = span("place", `place ${one.position}`);
    return element("li", { "data-testid": "shown-row", title: counts }, name, meter(share(one) / most), span("figure", percent(share(one))));
  });
  return [element("p", { class: "hint" }, lists), element("ol", { class: "bars places" }, ...rows)];
}

function share({ shown, taken }) {
  return taken / shown;
}

function nothing() {
  return state("No list was remembered yet. Ask for lists with remember, and name their recommendation_id in events.");
}
