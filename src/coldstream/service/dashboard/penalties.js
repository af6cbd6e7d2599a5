/** λ per field over events on a log scale, with the fields and their λ now beside it. */

import { Chart, axis, colour, eventsAxis, plain } from "./chart.js";
import { byId, element, span } from "./element.js";
import { magnitude } from "./numbers.js";

const HUES = 8;
const DASHES = ["solid", "dot", "dash"];
const PATIENCE_MS = 3000;

/** The chart; `draw` shows a history, though not every second, for λ moves slowly. */
export function penalties() {
  const chart = new Chart("penalties");
  let drawn = -Infinity;
  return {
    draw(history) {
      const fields = history.last?.events ? Object.keys(history.last.penalties) : [];
      if (!fields.length) chart.say("No field has a penalty yet: they come with the first events.");
      if (!fields.length || performance.now() - drawn < PATIENCE_MS) return;
      drawn = performance.now();
      byId("penalties").setAttribute("role", "img");
      byId("penalties").setAttribute("aria-label", "λ of each field over events; the values now are in the list beside it");
      chart.draw(() => picture(chart, fields, history.samples));
      drawFields(fields, history.last.penalties);
    },
  };
}

function hue(index) {
  return `--hue-${index % HUES}`;
}

function dash(index) {
  return DASHES[Math.floor(index / HUES) % DASHES.length];
}

function picture(chart, fields, samples) {
  const x = samples.map((sample) => sample.events);
  return {
    traces: fields.map((field, index) => ({
      type: "scatter",
      mode: "lines",
      name: plain(field),
      x,
      y: samples.map((sample) => sample.penalties[field] ?? null),
      line: { color: colour(hue(index)), width: 2, dash: dash(index) },
    })),
    layout: {
      margin: { l: 52, r: 12, t: 10, b: 26 },
      hovermode: "closest",
      xaxis: eventsAxis(samples, chart.width),
      yaxis: axis({ type: "log", hoverformat: ".3~g", dtick: 1, exponentformat: "power", minor: { showgrid: false } }),
    },
  };
}

/** The fields, the most held back first, as the lines stand. */
function drawFields(fields, now) {
  const placed = fields.map((field, index) => ({ field, index, value: now[field] }));
  placed.sort((one, other) => other.value - one.value);
  const rows = placed.map(({ field, index, value }) => {
    const swatch = element("span", { class: "swatch", style: `border-top: 3px ${cssDash(index)} var(${hue(index)})` });
    return element("li", {}, swatch, span("name", field), span("figure", magnitude(value)));
  });
  byId("penalties-now").replaceChildren(...rows);
}

function cssDash(index) {
  return { solid: "solid", dot: "dotted", dash: "dashed" }[dash(index)];
}
