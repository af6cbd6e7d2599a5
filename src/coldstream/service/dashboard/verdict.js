/** The answer to the one question: is it better than popularity right now, and since when? */

import { byId, setText } from "./element.js";
import { METHODS, OURS, SHADOWS } from "./methods.js";
import { fixed, percent, whole } from "./numbers.js";

/** How we stand in a sample: ahead in recall of every shadow, behind, or null where it cannot be told. */
function lead(sample) {
  const ours = sample.methods[OURS.key]?.recall;
  const best = bestShadow(sample, "recall", Math.max);
  if (ours === null || ours === undefined || best === null) return null;
  return ours > best ? "ahead" : "behind";
}

function bestShadow(sample, figure, choose) {
  const values = SHADOWS.map(({ key }) => sample.methods[key]?.[figure]).filter((value) => typeof value === "number");
  return values.length ? choose(...values) : null;
}

/** The verdict on what was seen: a state, a headline and a sentence. */
export function judge({ samples, marksInSight }) {
  const now = samples.at(-1);
  if (!now || now.events === 0) {
    const detail = "Nothing has been learned yet. The figures begin as soon as somebody chooses something.";
    return { state: "empty", headline: "Waiting for the first event", detail };
  }
  const state = lead(now);
  if (state === null) {
    const detail = `${whole(now.events)} events so far. Figures need a few more.`;
    return { state: "early", headline: "Too early to tell", detail };
  }
  const detail = `${comparison(now)} ${duration(samples, state)}${surprise(now, state, marksInSight)}`;
  return { state, headline: headline(now, state), detail };
}

function headline(now, state) {
  const ours = now.methods[OURS.key].mpr;
  const best = bestShadow(now, "mpr", Math.min);
  if (state === "behind") return "Behind popularity";
  const torn = ours !== null && best !== null && ours >= best;
  return torn ? "Better than popularity in recall, not in MPR" : "Better than popularity";
}

function comparison(now) {
  const ours = now.methods[OURS.key].recall;
  const best = bestShadow(now, "recall", Math.max);
  if (best === 0) return "The baselines find nothing at all.";
  return `${(ours / best).toPrecision(2)} times the recall of the better baseline.`;
}

function duration(samples, state) {
  let first = samples.length - 1;
  while (first > 0 && lead(samples[first - 1]) === state) first -= 1;
  const from = samples[first].events;
  const length = samples.at(-1).events - from;
  const word = state === "ahead" ? "Ahead" : "Behind";
  if (first === 0 && from > 0) return `${word} for all of the ${whole(length)} events in sight.`;
  return length ? `${word} since event ${whole(from)}, for ${whole(length)} events.` : `${word} just now.`;
}

function surprise(now, state, marks) {
  const drift = marks.findLast((mark) => mark.kind === "drift");
  if (state !== "behind" || !drift) return "";
  return ` Drift was noticed ${whole(now.events - drift.events)} events ago.`;
}

/** Draws the verdict and the table of figures, and reads aloud only what turned. */
export function drawVerdict(history, top, window) {
  const { state, headline, detail } = judge(history);
  const title = byId("verdict");
  if (title.dataset.state !== state && ["ahead", "behind"].includes(state)) setText(byId("announcement"), headline);
  title.dataset.state = state;
  setText(title, headline);
  setText(byId("verdict-detail"), detail);
  setText(byId("recall-name"), `recall@${top}`);
  const measured = `share of choices in the top ${top}, over the last ${whole(window)} events`;
  setText(byId("recall-caption"), `${measured}; higher is better`);
  for (const place of document.querySelectorAll("[data-fact=top]")) setText(place, whole(top));
  for (const place of document.querySelectorAll("[data-fact=window]")) setText(place, whole(window));
  for (const { key } of METHODS) {
    const [, recall, mpr] = byId("methods").querySelector(`[data-method="${key}"]`).children;
    setText(recall, percent(history.last?.methods[key]?.recall));
    setText(mpr, fixed(history.last?.methods[key]?.mpr, 1));
  }
}
