/** The figures of the service: how fast, how large, how far, how safe. */

import { byId, element, setText, span } from "./element.js";
import { ago, bytes, fixed, missing, percent, rate, whole } from "./numbers.js";
import { sparkline } from "./sparkline.js";

/** Samples that a small line shows. */
const STRETCH = 90;
/** What keeps a line as high as its neighbours. */
const EMPTY = "\u00a0";

const TILES = [
  {
    id: "events",
    label: "Events per second",
    value: ({ sample }) => rate(sample.events_per_second),
    note: ({ sample }) => `${whole(sample.events)} learned`,
    line: (sample) => sample.events_per_second,
  },
  {
    id: "recommendations",
    label: "Recommendations per second",
    value: ({ sample }) => rate(sample.recommendations_per_second),
    note: ({ service }) => `${whole(service.items)} items, ${whole(service.users)} users`,
    line: (sample) => sample.recommendations_per_second,
  },
  {
    id: "latency",
    label: "Latency, p50 and p99",
    value: ({ sample }) => `${fixed(sample.p50_ms)} · ${fixed(sample.p99_ms, 1, "ms")}`,
    note: () => "",
    line: (sample) => sample.p99_ms ?? 0,
  },
  {
    id: "features",
    label: "Features",
    value: ({ sample }) => whole(sample.features),
    note: ({ sample, window }) => `${whole(sample.new_features)} new in the last ${whole(window)} events`,
  },
  {
    id: "model",
    label: "Memory, model and process",
    title: "The model is a weight and a vector for every feature. The process is Python, compiled code, items, users and the model.",
    value: ({ service }) => `${bytes(service.parameters_bytes)} · ${bytes(service.process_bytes)}`,
    note: () => "what was learned · all that it runs in",
  },
  {
    id: "bounds",
    label: "Within bounds",
    details: ({ service }) => usedBy(service.memory),
    value: ({ service: { memory } }) => bytes(memory.used) + (memory.bound === null ? "" : ` of ${bytes(memory.bound)}`),
    note: ({ service: { memory } }) => `${whole(sum(memory.gone))} went, ${whole(sum(memory.refused))} left out`,
    warns: ({ service: { memory } }) => memory.bound !== null && memory.used > memory.bound,
  },
  {
    id: "audience",
    label: "Choices by new users",
    value: ({ sample }) => percent(sample.new_users),
    note: ({ sample }) => `${percent(sample.new_items)} of new items`,
  },
  {
    id: "position",
    label: "Log position",
    value: ({ service }) => whole(service.position),
    note: ({ service }) => (service.store === "works" ? "the store works" : "the store is unavailable"),
    warns: ({ service }) => service.store !== "works",
  },
  {
    id: "snapshot",
    label: "Last snapshot",
    value: ({ service }) => (service.snapshot ? ago(service.snapshot.seconds_ago) : "none yet"),
    note: ({ service }) => (service.snapshot ? `at position ${whole(service.snapshot.position)}` : ""),
  },
];

/** The total of counts by name. */
function sum(counts) {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

/** What memory is used by what, and what had to be left out or to go. */
function usedBy({ parts, refused, gone }) {
  const used = Object.entries(parts).map(([part, count]) => `${part} ${bytes(count)}`);
  const lost = [...Object.entries(gone), ...Object.entries(refused).map(([why, count]) => [`left out (${why})`, count])];
  return [...used, ...lost.map(([what, count]) => `${what} ${whole(count)}`)].join(", ");
}

/** The tiles, with dashes until something is known. */
export function layTiles() {
  byId("tiles").append(...TILES.map(tile));
}

function tile({ id, label, title }) {
  const value = element("dd", { class: "value" }, missing);
  const note = element("dd", { class: "note" }, EMPTY);
  return element("div", { id: `tile-${id}`, "data-testid": `tile-${id}`, title }, element("dt", {}, label), value, note);
}

export function drawTiles(history, { service, window }) {
  const sample = history.last;
  if (!sample) return;
  const known = { sample, service, window };
  for (const { id, value, note, line, warns, details } of TILES) {
    const place = byId(`tile-${id}`);
    const [, figure, beneath] = place.children;
    setText(figure, value(known));
    if (line) beneath.replaceChildren(span(null, note(known)), sparkline(history.samples.slice(-STRETCH).map(line)));
    else setText(beneath, note(known) || EMPTY);
    if (details) place.title = details(known);
    place.classList.toggle("warns", warns?.(known) ?? false);
  }
}
