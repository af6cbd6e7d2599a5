/** Why an item has its score: the terms as bars, each beginning where the one before ends, up to the score. */

import { element, span } from "./element.js";
import { fixed, signed } from "./numbers.js";

const MOST_BARS = 10;
const NEARLY = 5e-4;

/** The panel of an explanation; `listed` is the score that the list showed. */
export function whyPanel({ score, terms }, listed) {
  const panel = element("div", { class: "why", "data-testid": "why" });
  show(panel, score, terms, listed, terms.length <= MOST_BARS + 1);
  return panel;
}

function show(panel, score, terms, listed, all) {
  const sum = terms.reduce((total, { value }) => total + value, 0);
  const rows = (all ? terms : shortened(terms)).map((term) => ({ name: nameOf(term), value: term.value }));
  panel.dataset.sum = sum;
  panel.dataset.score = score;
  panel.replaceChildren(bars(rows, sum));
  const doubt = doubts(sum, score, listed);
  if (doubt) panel.append(element("p", { class: "hint" }, doubt));
  if (all) return;
  const more = () => show(panel, score, terms, listed, true);
  panel.append(element("button", { type: "button", class: "quiet", onclick: more }, `Show all ${terms.length} terms`));
}

/** The weightiest terms, and one for what the others add up to. */
function shortened(terms) {
  const others = terms.slice(MOST_BARS);
  const rest = others.reduce((total, { value }) => total + value, 0);
  return [...terms.slice(0, MOST_BARS), { others: others.length, value: rest }];
}

function nameOf({ features, others }) {
  if (others) return `${others} smaller terms together`;
  return features.length ? features.join(" × ") : "intercept";
}

function bars(rows, sum) {
  const ends = rows.reduce((before, { value }) => [...before, before.at(-1) + value], [0]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const place = (value) => (100 * (value - low)) / (high - low || 1);
  const track = (from, to, look) => {
    const style = `left: ${place(Math.min(from, to))}%; right: ${100 - place(Math.max(from, to))}%`;
    const origin = element("span", { class: "origin", style: `left: ${place(0)}%` });
    return [origin, element("span", { class: `bar ${look}`, style })];
  };
  const terms = rows.map(({ name, value }, index) => {
    return row(name, track(ends[index], ends[index + 1], value < 0 ? "down" : "up"), signed(value));
  });
  const total = row("Together, the score", track(0, sum, "whole"), fixed(sum, 3));
  total.className = "total";
  total.dataset.testid = "why-sum";
  return element("ul", { class: "terms" }, ...terms, total);
}

function row(name, track, figure) {
  return element(
    "li",
    { "data-testid": "why-term" },
    span("name", name),
    element("span", { class: "track", "aria-hidden": "true" }, ...track),
    span("figure", figure),
  );
}

/** What does not agree, or nothing. */
function doubts(sum, score, listed) {
  if (Math.abs(sum - score) > NEARLY) return `The service says that the score is ${fixed(score, 3)}.`;
  return Math.abs(score - listed) > NEARLY ? `The list said ${fixed(listed, 3)}: the model has learned since.` : null;
}
