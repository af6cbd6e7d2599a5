/** The methods that are compared: their names, and how each is drawn everywhere. */

export const OURS = { key: "coldstream", name: "coldstream", short: "coldstream", colour: "--coldstream", dash: "solid" };

export const SHADOWS = [
  { key: "recent_popularity", name: "recent popularity", short: "recent", colour: "--recent", dash: "dash" },
  { key: "popularity", name: "popularity", short: "popularity", colour: "--popularity", dash: "dot" },
];

export const METHODS = [OURS, ...SHADOWS];
