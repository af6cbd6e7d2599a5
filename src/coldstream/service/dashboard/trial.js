/** Try it: be a user in a context, get recommendations, and choose one of them. */

import { get, post } from "./api.js";
import { byId, problem, setText } from "./element.js";
import { Recommendations, summary } from "./recommendations.js";
import { kindForm, sideForm } from "./schema_form.js";
import { suggest } from "./suggestions.js";

const LETTERS = "abcdefghijkmnopqrstuvwxyz023456789";

/** Makes the form as the schema says, and lets it work. */
export async function startTrial() {
  const trial = new Trial();
  const suggestUsers = suggest(byId("user"), byId("users"), "/users", "users", showWhetherKnown);
  byId("invent").addEventListener("click", () => {
    byId("user").value = `guest-${randomName(4)}`;
    suggestUsers();
  });
  byId("trial").addEventListener("submit", (submitted) => {
    submitted.preventDefault();
    trial.recommend();
  });
  try {
    byId("fields").replaceChildren(...trial.formed(await get("/schema")));
  } catch (error) {
    byId("fields").replaceChildren(problem(error));
  }
  byId("invent").disabled = false;
  byId("recommend").disabled = false;
}

class Trial {
  #sides = [];
  #kind = null;
  #asked = null;
  #shown = null;
  #busy = false;
  #list = new Recommendations((item) => this.interact(item));

  /** The inputs of a schema. */
  formed({ context, user, feedback }) {
    const about = sideForm("attributes", "About the user, for this call only", user);
    this.#sides = [sideForm("context", "Context", context), about].filter(Boolean);
    this.#kind = feedback ? kindForm(feedback) : null;
    return [...this.#sides, this.#kind].filter(Boolean).map((one) => one.element);
  }

  recommend() {
    const wanted = { user: byId("user").value.trim(), n: byId("count").valueAsNumber, context: {} };
    for (const { side, values } of this.#sides) {
      if (Object.keys(values()).length) wanted[side] = values();
    }
    return this.#attempt("Asking…", async () => {
      const moves = await this.#show(wanted);
      return moves ? `For ${wanted.user} again: ${summary(moves)}` : `The best for ${wanted.user}.`;
    });
  }

  /** Chooses an item as the user, in the context that the list was asked for. */
  interact(item) {
    const { user, context } = this.#asked;
    const kind = this.#kind?.value() ?? null;
    return this.#attempt("Learning…", async () => {
      const from = { recommendation_id: this.#shown, event_id: `page-${randomName(24)}` };
      await post("/events", { user, item, context, ...(kind && { kind }), ...from });
      const moves = await this.#show(this.#asked);
      const done = kind ? `${kind} of ${this.#list.titleOf(item)} by ${user}` : `${user} chose ${this.#list.titleOf(item)}`;
      return `Learned for good: ${done}. ${summary(moves)}`;
    });
  }

  async #show(wanted) {
    const { items, recommendation_id: shown } = await post("/recommend", { ...wanted, describe: true, remember: true });
    this.#asked = wanted;
    this.#shown = shown;
    return this.#list.show(items, wanted);
  }

  /** Runs one step at a time; says what came of it, or what went wrong. */
  async #attempt(meanwhile, step) {
    if (this.#busy) return;
    this.#turn(true);
    setText(byId("trial-status"), meanwhile);
    try {
      setText(byId("trial-status"), await step());
      this.#complain(null);
    } catch (error) {
      setText(byId("trial-status"), "");
      this.#complain(error);
    }
    this.#turn(false);
    bringIntoView(byId("results"));
  }

  #turn(busy) {
    this.#busy = busy;
    this.#list.busy = busy;
  }

  #complain(error) {
    const blamed = this.#sides.map((side) => side.blame(error)).some(Boolean);
    byId("trial-problem").hidden = !error || blamed;
    setText(byId("trial-problem"), error?.message ?? "");
  }
}

/** Scrolls to what came of a step where it would begin below the middle of the window: on a phone, under the form. */
function bringIntoView(place) {
  const { top } = place.getBoundingClientRect();
  if (top > innerHeight / 2) place.scrollIntoView({ block: "start" });
}

function showWhetherKnown(names, typed) {
  const known = names.includes(typed) ? "A known user." : "Nobody by that name yet: a new user.";
  setText(byId("user-hint"), typed ? known : "Pick one, or type a name that nobody has.");
}

function randomName(length) {
  return [...crypto.getRandomValues(new Uint8Array(length))].map((byte) => LETTERS[byte % LETTERS.length]).join("");
}
