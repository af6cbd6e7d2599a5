/** The form that asks for a key where the service wants one. */

import { dropKey, get, hasKey, keepKey } from "./api.js";
import { byId } from "./element.js";

/** Shows the form whenever a call lacks a good key, and says `keygiven` when one was found. */
export function guard() {
  document.addEventListener("keyneeded", lock);
  byId("lock-form").addEventListener("submit", tryKey);
  byId("other-key").addEventListener("click", () => {
    dropKey();
    document.dispatchEvent(new CustomEvent("keyneeded"));
  });
  byId("other-key").hidden = !hasKey();
}

function lock() {
  if (!byId("lock").hidden) return;
  byId("lock").hidden = false;
  byId("open").hidden = true;
  byId("other-key").hidden = true;
  say(hasKey() ? "The key is not accepted any more." : "");
  byId("key").focus();
}

async function tryKey(submitted) {
  submitted.preventDefault();
  const key = byId("key");
  keepKey(key.value.trim());
  try {
    await get("/schema");
  } catch (error) {
    dropKey();
    say(error.status === 401 ? "That key is not accepted." : error.message);
    key.select();
    return;
  }
  key.value = "";
  byId("lock").hidden = true;
  byId("open").hidden = false;
  byId("other-key").hidden = false;
  byId("content").focus({ preventScroll: true });
  scrollTo(0, 0);
  document.dispatchEvent(new CustomEvent("keygiven"));
}

function say(wrong) {
  byId("lock-wrong").textContent = wrong;
  byId("lock-wrong").hidden = !wrong;
}
