/** λ per field over events on a log scale, one side at a time, with the fields and their λ now beside it. */

import { Chart, axis, colour, eventsAxis, plain } from "./chart.js";
import { byId, element, span } from "./element.js";
import { magnitude } from "./numbers.js";

const HUES = 8;
const DASHES = ["solid", "dot", "dash"];
const PATIENCE_MS = 3000;
const SIDES = ["item", "user", "context"];

/** The chart; `draw` shows a history, though not every second, for λ moves slowly. It is folded until somebody asks. */
export function penalties() {
  const chart = new Chart("penalties");
  let drawn = -Infinity;
  let side = null;
  let picked = null;
  let latest = null;

  function show() {
    const fields = Object.keys(latest.last.penalties).filter((field) => sideOf(field) === side);
    if (!fields.includes(picked)) picked = null;
    byId("penalties").setAttribute("role", "img");
    byId("penalties").setAttribute("aria-label", `λ of each ${side} field over events; the values now are in the list beside it`);
    chart.draw(() => picture(chart, fields, latest.samples, picked));
    drawFields(fields, latest.last.penalties, picked, pick);
  }

  /** Lets one line stand out, or none. */
  function pick(field) {
    picked = picked === field ? null : field;
    show();
  }

  function choose(other) {
    [side, picked] = [other, null];
    show();
  }

  byId("penalties-fold").addEventListener("toggle", () => {
    if (side !== null) show();
  });

  return {
    draw(history) {
      const fields = history.last?.events ? Object.keys(history.last.penalties) : [];
      if (!fields.length) chart.say("No field has a penalty yet: they come with the first events.");
      if (!fields.length || performance.now() - drawn < PATIENCE_MS) return;
      [drawn, latest] = [performance.now(), history];
      const sides = SIDES.filter((one) => fields.some((field) => sideOf(field) === one));
      if (!sides.includes(side)) [side] = sides;
      drawSides(sides, side, choose);
      if (byId("penalties-fold").open) show();
    },
  };
}

function sideOf(field) {
  return field.slice(0, field.indexOf("."));
}

/** A choice of the side whose fields are drawn. */
function drawSides(sides, side, choose) {
  const place = byId("penalties-sides");
  if (place.querySelectorAll("input").length === sides.length) return;
  const choices = sides.map((one) => {
    const box = { type: "radio", name: "penalties-side", value: one, checked: one === side, onchange: () => choose(one) };
    return element("label", { class: "choice" }, element("input", box), span(null, `${one} fields`));
  });
  place.replaceChildren(place.firstElementChild, ...choices);
}

function hue(index) {
  return `--hue-${index % HUES}`;
}

function dash(index) {
  return DASHES[Math.floor(index / HUES) % DASHES.length];
}

function picture(chart, fields, samples, picked) {
  const x = samples.map((sample) => sample.events);
  return {
    traces: fields.map((field, index) => ({
      type: "scatter",
      mode: "lines",
      name: plain(field),
      x,
      y: samples.map((sample) => sample.penalties[field] ?? null),
      opacity: picked === null || picked === field ? 1 : 0.2,
      line: { color: colour(hue(index)), width: picked === field ? 4 : 2, dash: dash(index) },
    })),
    layout: {
      margin: { l: 52, r: 12, t: 10, b: 26 },
      hovermode: "closest",
      xaxis: eventsAxis(samples, chart.width),
      yaxis: axis({ type: "log", hoverformat: ".3~g", dtick: "D2", tickformat: ".1~g", minor: { showgrid: false } }),
    },
  };
}

/** The fields, the most held back first, as the lines stand; a press on one lets its line stand out. */
function drawFields(fields, now, picked, pick) {
  const focused = document.activeElement?.closest("#penalties-now [data-field]")?.dataset.field;
  const placed = fields.map((field, index) => ({ field, index, value: now[field] }));
  placed.sort((one, other) => other.value - one.value);
  const rows = placed.map(({ field, index, value }) => {
    const swatch = element("span", { class: "swatch", style: `border-top: 3px ${cssDash(index)} var(${hue(index)})` });
    const press = { type: "button", "data-field": field, "aria-pressed": String(field === picked), onclick: () => pick(field) };
    const name = span("name", field.slice(field.indexOf(".") + 1));
    return element("li", {}, element("button", press, swatch, name, span("figure", magnitude(value))));
  });
  byId("penalties-now").replaceChildren(...rows);
  rows.find((row) => row.firstChild.dataset.field === focused)?.firstChild.focus({ preventScroll: true });
}

function cssDash(index) {
  return { solid: "solid", dot: "dotted", dash: "dashed" }[dash(index)];
}
