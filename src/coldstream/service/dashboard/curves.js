/** Recall and MPR over events: a line per method with its name at the end, and marks for what happened. */

import { Chart, axis, colour, eventsAxis, plain } from "./chart.js";
import { byId, setText } from "./element.js";
import { METHODS, OURS } from "./methods.js";
import { percent, whole } from "./numbers.js";

const NARROW = 400;
const TOP = 22;
const BOTTOM = 26;
const LABEL = 16;

const FIGURES = [
  { id: "recall", title: "Recall in percent", figure: "recall", scale: 100, unit: "%" },
  { id: "mpr", title: "Mean percentile rank", figure: "mpr", scale: 1, unit: "" },
];

/** The two charts; `draw` shows a history. */
export function curves() {
  const charts = FIGURES.map((kind) => [new Chart(kind.id), kind]);
  let announced = -1;
  return {
    draw(history) {
      for (const [chart, kind] of charts) drawOne(chart, kind, history);
      announced = drawNews(history, announced);
    },
  };
}

function drawOne(chart, kind, history) {
  const known = history.samples.some((sample) => METHODS.some(({ key }) => valueOf(sample, key, kind) !== null));
  if (!known) {
    chart.say("No figures yet: they begin with the first events.");
    return;
  }
  const place = byId(kind.id);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", described(history.last, kind));
  place.dataset.events = history.last.events;
  chart.draw(() => picture(chart, kind, history));
}

function picture(chart, kind, { samples, marksInSight }) {
  const lines = METHODS.map((method) => line(method, kind, samples));
  const most = Math.max(...lines.flatMap(({ y }) => y.filter((value) => value !== null)));
  const range = [0, roof(most)];
  const narrow = chart.width < NARROW;
  const ends = lines.map(({ y }) => y.findLast((value) => value !== null) ?? null);
  const drifts = marksInSight.filter((mark) => mark.kind === "drift");
  return {
    traces: [...lines, newcomers(marksInSight, range[1] * 0.02)],
    layout: {
      margin: { l: 40, r: narrow ? 90 : 120, t: TOP, b: BOTTOM },
      xaxis: eventsAxis(samples, chart.width),
      yaxis: axis({ range, nticks: 5, ticksuffix: kind.unit, hoverformat: ".1f" }),
      shapes: drifts.map(driftLine),
      annotations: [...names(ends, range, chart.height, narrow), ...driftNames(drifts, samples, chart.width)],
    },
  };
}

function valueOf(sample, key, { figure, scale }) {
  const value = sample.methods[key]?.[figure];
  return typeof value === "number" ? value * scale : null;
}

function line({ key, name, colour: property, dash }, kind, samples) {
  return {
    type: "scatter",
    mode: "lines",
    name,
    x: samples.map((sample) => sample.events),
    y: samples.map((sample) => valueOf(sample, key, kind)),
    line: { color: colour(property), width: key === OURS.key ? 3 : 2, dash },
  };
}

/** The end of the axis: a round number above the highest point, so that it seldom moves. */
function roof(most) {
  const step = 10 ** Math.floor(Math.log10(Math.max(most, 1))) / 2;
  return Math.ceil((most * 1.08) / step) * step;
}

/** A tick for every entry of items, just above the axis. */
function newcomers(marks, height) {
  const entered = marks.filter((mark) => mark.kind === "items");
  return {
    type: "scatter",
    mode: "markers",
    x: entered.map((mark) => mark.events),
    y: entered.map(() => height),
    text: entered.map((mark) => plain(mark.text)),
    hovertemplate: "%{text}<extra></extra>",
    marker: { symbol: "line-ns", size: 9, line: { width: 1.5, color: colour("--muted") } },
  };
}

function driftLine({ events }) {
  const line = { color: colour("--drift"), width: 1.5, dash: "dot" };
  return { type: "line", x0: events, x1: events, y0: 0, y1: 1, yref: "paper", layer: "below", line };
}

/** A word above the marks, left out where it would stand in another. */
function driftNames(drifts, samples, width) {
  const span = Math.max(samples.at(-1).events - samples[0].events, 1);
  let free = -Infinity;
  return drifts.flatMap(({ events }) => {
    const at = ((events - samples[0].events) / span) * width;
    if (at < free) return [];
    free = at + 60;
    const font = { color: colour("--drift"), size: 12 };
    return [{ x: events, y: 1, yref: "paper", yanchor: "bottom", text: "drift", showarrow: false, font }];
  });
}

/** The names of the methods at the ends of their lines, moved apart where they would overlap. */
function names(ends, range, height, narrow) {
  const scale = (height - TOP - BOTTOM) / (range[1] - range[0]);
  const placed = METHODS.map((method, index) => ({ method, value: ends[index], at: ends[index] * scale }))
    .filter(({ value }) => value !== null)
    .sort((one, other) => one.at - other.at);
  const apart = spread(placed.map(({ at }) => at), LABEL);
  return placed.map(({ method, value, at }, index) => ({
    x: 1,
    xref: "paper",
    xanchor: "left",
    xshift: 6,
    y: value,
    yshift: apart[index] - at,
    text: method.key === OURS.key ? `<b>${method.short}</b>` : narrow ? method.short : method.name,
    showarrow: false,
    font: { color: colour(method.colour), size: 12 },
  }));
}

/** The rising places, each at least `gap` above the one before and as near to where it was as that allows. */
export function spread(places, gap) {
  const groups = [];
  places.forEach((place) => {
    groups.push({ sum: place, count: 1 });
    while (groups.length > 1 && bottom(groups.at(-1), gap) < top(groups.at(-2), gap) + gap) {
      const above = groups.pop();
      groups.at(-1).sum += above.sum;
      groups.at(-1).count += above.count;
    }
  });
  return groups.flatMap((group) => Array.from({ length: group.count }, (_, index) => bottom(group, gap) + index * gap));
}

function bottom({ sum, count }, gap) {
  return sum / count - ((count - 1) * gap) / 2;
}

function top({ sum, count }, gap) {
  return sum / count + ((count - 1) * gap) / 2;
}

function described(sample, kind) {
  const figures = METHODS.map(({ key, name }) => {
    const value = valueOf(sample, key, kind);
    return `${name} ${value === null ? "unknown" : value.toFixed(1)}`;
  });
  return `${kind.title} at event ${whole(sample.events)}: ${figures.join(", ")}`;
}

/** The latest thing that happened, in words; a drift is also read aloud, once. */
function drawNews({ marks, last }, announced) {
  const latest = marks.at(-1);
  const share = last?.sampled ?? 1;
  const quality = share < 0.995 ? `${percent(share, 0)} of events are tested.` : "";
  const news = latest ? `Latest: ${latest.text}, ${whole(last.events - latest.events)} events ago.` : "";
  setText(byId("news"), [news, quality].filter(Boolean).join(" "));
  const drift = marks.findLast((mark) => mark.kind === "drift")?.events ?? 0;
  if (announced >= 0 && drift > announced) setText(byId("announcement"), `Drift was noticed at event ${whole(drift)}`);
  return drift;
}
