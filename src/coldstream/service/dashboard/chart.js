/** A Plotly chart in the colours of the page, drawn again only while it can be seen. */

import { byId, element, state } from "./element.js";

const CONFIG = { displayModeBar: false, doubleClick: false, showTips: false };
const UNFETCHED = "The charts could not be fetched. Reload the page to try again.";

let plotly = null;

/** Plotly, fetched once; the page is useful before it is here. */
function loaded() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/assets/plotly.min.js";
    script.addEventListener("load", () => resolve(globalThis.Plotly));
    script.addEventListener("error", () => reject(new Error(UNFETCHED)));
    document.head.append(script);
  });
  return plotly;
}

const probe = element("span", { hidden: true });
const resolved = new Map();
document.body.append(probe);
document.addEventListener("themechange", () => resolved.clear());

/** The colour that a custom property has now, as Plotly takes it. */
export function colour(property) {
  if (!resolved.has(property)) {
    probe.style.color = `var(${property})`;
    resolved.set(property, getComputedStyle(probe).color);
  }
  return resolved.get(property);
}

/** Text that Plotly does not read as markup. */
export function plain(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

export class Chart {
  #place;
  #seen = false;
  #picture = null;

  constructor(id) {
    this.#place = byId(id);
    new IntersectionObserver(([entry]) => {
      this.#seen = entry.isIntersecting;
      if (this.#seen) this.#paint();
    }, { rootMargin: "100px" }).observe(this.#place);
    document.addEventListener("themechange", () => this.#paint());
    new ResizeObserver(() => this.#paint()).observe(this.#place);
    loaded().then(() => this.#paint(), (error) => this.say(error.message));
  }

  get width() {
    return this.#place.clientWidth;
  }

  get height() {
    return this.#place.clientHeight;
  }

  /** Shows what `picture` returns, { traces, layout }; it is asked again when the size or the colours change. */
  draw(picture) {
    this.#picture = picture;
    this.#paint();
  }

  /** Shows a sentence as long as there is nothing to draw. */
  say(text) {
    if (!this.#place.classList.contains("drawn")) this.#place.replaceChildren(state(text));
  }

  #paint() {
    const plotter = globalThis.Plotly;
    const drawn = this.#place.classList.contains("drawn");
    if (!plotter || !this.#picture || !this.width || (drawn && !this.#seen)) return;
    if (!drawn) this.#place.replaceChildren();
    this.#place.classList.add("drawn");
    const { traces, layout } = this.#picture();
    plotter.react(this.#place, traces, { ...look(), ...layout, width: this.width, height: this.height }, CONFIG);
  }
}

function look() {
  const font = { color: colour("--ink"), size: 12 };
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--muted") },
    showlegend: false,
    dragmode: false,
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--line"), font, namelength: -1 },
  };
}

/** An axis with thin lines, that nobody can drag. */
export function axis(options) {
  return { fixedrange: true, zeroline: false, gridcolor: colour("--line"), linecolor: colour("--line"), ...options };
}

/** The axis of events, over all samples. */
export function eventsAxis(samples, width) {
  const [from, to] = [samples[0].events, samples.at(-1).events];
  return axis({
    range: [from, Math.max(to, from + 10)],
    showgrid: false,
    nticks: width < 400 ? 4 : 8,
    tickformat: ",d",
    hoverformat: ",d",
    unifiedhovertitle: { text: "event %{x:,d}" },
    spikecolor: colour("--edge"),
    spikethickness: 1,
    spikedash: "solid",
  });
}
