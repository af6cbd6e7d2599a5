/** The first minute: what a service does before it answers, and how long that takes. It is no alarm. */

import { gettingReady } from "./connection.js";
import { byId, setText } from "./element.js";
import { whole } from "./numbers.js";

/** Seconds after which a start is no longer usual. */
const USUAL = 90;

const DOING = {
  recovering: "Reading what was learned before, and the log behind it",
  compiling: "Compiling the model for this processor",
};

/** Shows how far a start has come. */
export function drawStart({ phase, seconds }) {
  gettingReady();
  const title = byId("verdict");
  title.dataset.state = "starting";
  setText(title, "Getting ready");
  const usual = "The very first start compiles for about a minute; later ones take seconds.";
  const long = "That is longer than usual: a long log, or a busy machine.";
  const detail = `${DOING[phase] ?? "Starting"}, for ${whole(seconds)} s so far. ${seconds < USUAL ? usual : long}`;
  setText(byId("verdict-detail"), `${detail} The page goes on by itself.`);
  byId("start-up").hidden = false;
  // Nobody knows how much is left, only how long it usually takes.
  if (seconds < byId("start-up").max) byId("start-up").value = seconds;
  else byId("start-up").removeAttribute("value");
}

export function endStart() {
  byId("start-up").hidden = true;
}
