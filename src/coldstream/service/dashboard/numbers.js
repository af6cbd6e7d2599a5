/** Numbers as people read them. */

const THIN = "\u202f";
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const withMinus = (text) => text.replace("-", "\u2212");

export const missing = "–";

export function whole(value) {
  return grouped.format(value);
}

/** A figure with so many digits after the point, or a dash where there is none. */
export function fixed(value, digits = 1, unit = "") {
  return value === null || value === undefined ? missing : withMinus(value.toFixed(digits)) + (unit && THIN + unit);
}

export function percent(share, digits = 1) {
  return share === null || share === undefined ? missing : fixed(100 * share, digits, "%");
}

/** Something per second: with a digit after the point while it is small. */
export function rate(value) {
  return value < 10 ? fixed(value, 1) : whole(value);
}

export function signed(value, digits = 3) {
  return (value >= 0 ? "+" : "") + fixed(value, digits);
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const unit = count < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(count) / 3));
  return fixed(count / 1000 ** unit, unit ? 1 : 0, units[unit]);
}

export function ago(seconds) {
  if (seconds < 90) return `${whole(seconds)} s ago`;
  if (seconds < 5400) return `${whole(seconds / 60)} min ago`;
  return seconds < 172800 ? `${whole(seconds / 3600)} h ago` : `${whole(seconds / 86400)} days ago`;
}

/** Small positive numbers that span powers of ten. */
export function magnitude(value) {
  if (value === 0 || (value >= 0.001 && value < 1000)) return String(Number(value.toPrecision(2)));
  return withMinus(value.toExponential(1));
}
