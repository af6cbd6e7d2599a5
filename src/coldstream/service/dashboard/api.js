/** The service's calls. Every failure is a Problem whose message can be shown. */

const KEY = "coldstream.key";
const PATIENCE_MS = 10_000;

/** What went wrong; status 0 where nothing answered. */
export class Problem extends Error {
  constructor(message, status, field = null) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}

export function keepKey(key) {
  sessionStorage.setItem(KEY, key);
}

export function dropKey() {
  sessionStorage.removeItem(KEY);
}

export function get(path, query = {}) {
  const search = new URLSearchParams(query).toString();
  return call(search ? `${path}?${search}` : path, {});
}

export function post(path, body) {
  return call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

async function call(path, options) {
  const headers = { ...options.headers };
  if (hasKey()) headers.Authorization = `Bearer ${sessionStorage.getItem(KEY)}`;
  const signal = AbortSignal.timeout(PATIENCE_MS);
  let response;
  let text;
  try {
    response = await fetch(path, { ...options, headers, signal, cache: "no-store" });
    text = await response.text();
  } catch {
    throw new Problem("The service does not answer.", 0);
  }
  if (response.ok) return JSON.parse(text);
  const refused = refusal(response, text);
  if (response.status === 401) document.dispatchEvent(new CustomEvent("keyneeded"));
  throw refused;
}

function refusal(response, text) {
  try {
    const { detail, title, field } = JSON.parse(text);
    return new Problem(detail || title, response.status, field ?? null);
  } catch {
    return new Problem(`The service answered with ${response.status} ${response.statusText}`.trim(), response.status);
  }
}
