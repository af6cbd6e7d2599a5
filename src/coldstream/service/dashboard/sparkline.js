/** A line as small as a word. */

const WIDTH = 96;
const HEIGHT = 20;
const SVG = "http://www.w3.org/2000/svg";

/** The values from left to right; the largest touches the top, nothing is at the bottom. */
export function sparkline(values) {
  const most = Math.max(...values, 1e-9);
  const step = WIDTH / Math.max(values.length - 1, 1);
  const height = (value) => HEIGHT - 1 - (value / most) * (HEIGHT - 3);
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${height(value).toFixed(1)}`);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("sparkline");
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points.join(" "));
  svg.append(line);
  return svg;
}
