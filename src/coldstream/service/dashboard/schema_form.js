/** The inputs that a schema asks for: one for every field whose value the caller gives. */

import { element } from "./element.js";
import { fixed } from "./numbers.js";

const MOST_CHOICES = 12;
const MOST_EXAMPLES = 6;

const naturally = new Intl.Collator("en", { numeric: true }).compare;

const INPUTS = { category, number, set };

/** A group of inputs for the fields of one side, or null where that side takes none. */
export function sideForm(side, legend, fields) {
  const inputs = Object.entries(fields)
    .filter(([, { kind }]) => kind in INPUTS)
    .map(([name, options]) => fieldOf(`${side}-${name}`, name, options));
  if (!inputs.length) return null;
  return {
    side,
    element: element("fieldset", {}, element("legend", {}, legend), ...inputs.map((input) => input.element)),
    /** Field → value, of those that were filled in. */
    values: () => Object.fromEntries(inputs.map(({ name, value }) => [name, value()]).filter(([, value]) => value !== null)),
    /** Shows a problem at the field it is about; whether it is one of these. */
    blame(problem) {
      const guilty = inputs.find(({ name }) => problem?.field === `$.${side}.${name}`);
      for (const one of inputs) one.blame(one === guilty ? problem.message : "");
      return guilty !== undefined;
    },
  };
}

/** What choosing an item means: one of the kinds that the schema declares, the weightiest first, or a plain choice. */
export function kindForm(kinds) {
  const weight = (own) => (typeof own === "number" ? own : own.weight);
  const names = Object.keys(kinds).toSorted((one, other) => weight(kinds[other]) - weight(kinds[one]));
  const options = names.map((name) => element("option", { value: name }, `${name} (${fixed(weight(kinds[name]), 1)})`));
  const input = element("select", { id: "kind", "data-testid": "kind" }, ...options, element("option", { value: "" }, "plain choice"));
  const label = element("label", { for: "kind" }, "what choosing means");
  const hint = element("p", { class: "hint" }, "A kind of event, with its weight.");
  const field = element("div", { class: "field" }, label, input, hint);
  return { element: element("fieldset", {}, element("legend", {}, "Choosing"), field), value: () => input.value || null };
}

function fieldOf(id, name, options) {
  const { input, parts, value } = INPUTS[options.kind](id, name, options.values ?? []);
  const [hintId, wrongId] = [`${id}-hint`, `${id}-problem`];
  const hint = element("p", { id: hintId, class: "hint", "data-testid": `hint-${id}` }, hintOf(options));
  const wrong = element("p", { id: wrongId, class: "problem", role: "alert", hidden: true, "data-testid": "field-problem" });
  input.setAttribute("aria-describedby", `${hintId} ${wrongId}`);
  const blame = (message) => {
    wrong.textContent = message;
    wrong.hidden = !message;
    input.setAttribute("aria-invalid", Boolean(message));
    if (message) input.focus();
  };
  const label = element("label", { for: id }, name);
  return { name, value, blame, element: element("div", { class: "field" }, label, ...parts, hint, wrong) };
}

/** What may be given: the range that the schema declares of a number, or values that were seen. */
function hintOf({ kind, values = [], low, high, center = 0, scale = 1, bins }) {
  if (kind === "number") {
    if (bins?.length) return `A number; the groups begin at ${bins.map(written).join(", ")}.`;
    if (low !== undefined && high !== undefined) return `A number from ${written(low)} to ${written(high)}.`;
    return `A number, mostly from ${written(center - scale)} to ${written(center + scale)}.`;
  }
  if (!values.length) return "Any text: nothing was seen yet.";
  const some = values.toSorted(naturally).slice(0, MOST_EXAMPLES).join(", ");
  if (kind === "set" && values.length <= MOST_CHOICES) return "Several at once, or none.";
  return values.length > MOST_EXAMPLES ? `Seen: ${some}, …` : `Seen: ${some}.`;
}

function written(value) {
  return fixed(value, Number.isInteger(value) ? 0 : 2);
}

function category(id, name, values) {
  const list = `${id}-values`;
  const input = element("input", { id, list, autocomplete: "off", maxlength: 1024, "data-testid": `field-${id}` });
  const known = element("datalist", { id: list }, ...values.map((value) => element("option", { value })));
  return { input, parts: [input, known], value: () => input.value.trim() || null };
}

function number(id, name) {
  const input = element("input", { id, type: "number", step: "any", "data-testid": `field-${id}` });
  return { input, parts: [input], value: () => (input.value === "" ? null : input.valueAsNumber) };
}

function set(id, name, values) {
  const boxes = values.slice(0, MOST_CHOICES).map((value) => element("input", { type: "checkbox", value }));
  const choices = boxes.map((box) => element("label", { class: "choice" }, box, element("span", {}, box.value)));
  const hint = boxes.length ? "others, with commas between" : "values, with commas between";
  const input = element("input", { id, autocomplete: "off", placeholder: hint, "data-testid": `field-${id}` });
  const group = element("div", { class: "choices", role: "group", "aria-label": name }, ...choices);
  const parts = boxes.length ? [group, input] : [input];
  const chosen = () => {
    const typed = input.value.split(",").map((value) => value.trim());
    const all = [...boxes.filter((box) => box.checked).map((box) => box.value), ...typed].filter(Boolean);
    return all.length ? [...new Set(all)] : null;
  };
  return { input, parts, value: chosen };
}
