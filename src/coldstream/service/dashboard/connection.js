/** Whether the service answers, as the page shows it. */

import { byId, setText } from "./element.js";

const WORDS = { live: "live", lost: "not connected", refused: "waiting", locked: "locked", starting: "getting ready" };
const STORELESS = "The store is unavailable. Recommendations go on; nothing can be learned until it works again.";

let answered = null;

export function startConnection() {
  byId("banner-retry").addEventListener("click", () => document.dispatchEvent(new CustomEvent("trynow")));
}

export function connected({ service }) {
  answered = new Date();
  mark("live");
  setText(byId("version"), `coldstream ${service.version}, preset ${service.preset}`);
  banner(service.store === "works" ? "" : STORELESS, false);
}

/** It starts: it will answer, and nothing is wrong. */
export function gettingReady() {
  mark("starting");
  banner("", false);
}

export function disconnected(error) {
  if (error.status === 401) {
    mark("locked");
    banner("", false);
    return;
  }
  mark(error.status ? "refused" : "lost");
  const seen = answered ? `What you see is from ${answered.toLocaleTimeString("en-GB")}. ` : "";
  banner(`${error.message} ${seen}Trying again…`, true);
}

function mark(state) {
  const place = byId("connection");
  place.dataset.state = state;
  setText(place, WORDS[state]);
  document.body.dataset.connection = state;
}

function banner(text, retry) {
  byId("banner").hidden = !text;
  byId("banner-retry").hidden = !retry;
  setText(byId("banner-text"), text);
}
