/** The page: what each answer of the service is shown as. */

import { startCatalogue } from "./catalogue.js";
import { connected, disconnected, startConnection } from "./connection.js";
import { curves } from "./curves.js";
import { startFeatures } from "./features.js";
import { History } from "./history.js";
import { follow } from "./live.js";
import { guard } from "./lock.js";
import { penalties } from "./penalties.js";
import { startShown } from "./shown.js";
import { drawStart, endStart } from "./start_up.js";
import { drawTiles, layTiles } from "./tiles.js";
import { startTrial } from "./trial.js";
import { drawVerdict } from "./verdict.js";

const history = new History();
const figures = curves();
const fields = penalties();
let started = false;

guard();
startConnection();
layTiles();

follow({
  starting: drawStart,
  arrived(answer) {
    endStart();
    history.add(answer);
    connected(answer);
    drawVerdict(history, answer.top, answer.window);
    drawTiles(history, answer);
    figures.draw(history);
    fields.draw(history);
    if (!started) startRest();
  },
  failed: disconnected,
});

/** What asks for more waits until the service has answered once: it may be starting, or want a key. */
function startRest() {
  started = true;
  startTrial();
  startFeatures();
  startShown();
  startCatalogue();
}
