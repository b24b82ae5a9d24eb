// Calls to the daemon. Each carries the cookie, which the browser keeps, and a secret from this tab's storage.

const SECRET = "baton.secret";
const channel = new BroadcastChannel("baton");
const waiting = new Set();
let secret = sessionStorage.getItem(SECRET);
let asking = null;

export class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

export function isLoggedIn() {
  return secret !== null;
}

function keep(value) {
  secret = value;
  sessionStorage.setItem(SECRET, value);
  for (const go of waiting) go();
  waiting.clear();
  dispatchEvent(new Event("baton-login"));
}

function lose() {
  if (secret === null) return;
  secret = null;
  sessionStorage.removeItem(SECRET);
  dispatchEvent(new Event("baton-logout"));
}

/** Returns when this tab is logged in. */
export function loggedIn() {
  return secret === null ? new Promise((go) => waiting.add(go)) : Promise.resolve();
}

// The tabs of one browser share the cookie, so a tab that logs in can give the others the matching secret.
channel.addEventListener("message", ({ data }) => {
  if (data?.kind === "secret" && data.secret !== secret) keep(data.secret);
  else if (data?.kind === "who" && secret !== null) channel.postMessage({ kind: "secret", secret });
});

/** Asks the other tabs for the secret. */
export function askTabs() {
  if (secret !== null) return Promise.resolve(true);
  channel.postMessage({ kind: "who" });
  return Promise.race([loggedIn().then(() => true), new Promise((go) => setTimeout(go, 200, false))]);
}

export async function login(code) {
  const answer = await call("POST", "/login", { code }, {});
  keep(answer.csrf);
  channel.postMessage({ kind: "secret", secret });
}

export function headers() {
  return secret === null ? {} : { "X-Baton-CSRF": secret };
}

/** The daemon's reason for refusing a request, and whether the reason is the caller. */
export async function refused(response) {
  let why = "the daemon refused (" + response.status + ")";
  try {
    why = (await response.json()).error ?? why;
  } catch {
    // The daemon gave no reason.
  }
  if (response.status === 401 || why.startsWith("with the cookie,")) lose();
  return new Refused(response.status, why);
}

async function call(method, path, body, head) {
  const options = { method, headers: { ...head }, cache: "no-store" };
  if (method === "POST") {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body ?? {});
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Refused(0, "the daemon does not answer");
  }
  if (!response.ok) throw await refused(response);
  return response.json();
}

export function get(path) {
  return call("GET", path, null, headers());
}

/** Changes something. If the page is read-only, asks the person for a code first. */
export async function post(path, body) {
  try {
    return await call("POST", path, body, headers());
  } catch (error) {
    if (!(error.status === 403 && error.message.startsWith("this page is read-only")) || asking === null) throw error;
    if (!(await asking())) throw new Refused(403, "nothing was changed: this page is read-only");
    return call("POST", path, body, headers());
  }
}

/** Sets the function that asks the person for the code. */
export function onReadOnly(ask) {
  asking = ask;
}
