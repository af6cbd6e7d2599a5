/** The loop that asks once a second what is new: one request at a time, and none while nobody looks. */

import { get } from "./api.js";

const PERIOD_MS = 1000;
const LONGEST_MS = 5000;

/** Calls `arrived(answer)` or `failed(problem)` after every request, for ever; while the service starts, `starting(how far)`. */
export async function follow({ arrived, failed, starting }) {
  let since = -1;
  let failures = 0;
  let started = false;
  for (;;) {
    if (document.hidden) {
      await once("visibilitychange");
      continue;
    }
    if (!started) {
      const start = await startUp();
      started = start === null;
      if (!started) {
        since = -1;
        starting(start);
        await wait(PERIOD_MS);
        continue;
      }
    }
    const { answer, error } = await get("/live", { since }).then((answer) => ({ answer }), (error) => ({ error }));
    failures = error ? failures + 1 : 0;
    started = !error;
    // Where nothing answered, another process may answer next, and count from the beginning.
    since = error?.status === 0 ? -1 : (answer?.samples.at(-1)?.seq ?? since);
    if (error) failed(error);
    else arrived(answer);
    if (error?.status === 401) {
      await once("keygiven");
      continue;
    }
    await wait(failures ? Math.min(PERIOD_MS * 1.5 ** failures, LONGEST_MS) : PERIOD_MS);
  }
}

/** How far a start has come; null where it is over, or where nobody says. */
function startUp() {
  return get("/health").then(({ starting }) => starting, () => null);
}

function once(event) {
  return new Promise((resolve) => document.addEventListener(event, resolve, { once: true }));
}

/** Waits so long, or until somebody asks to try now. */
function wait(milliseconds) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      document.removeEventListener("trynow", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    document.addEventListener("trynow", end);
  });
}
