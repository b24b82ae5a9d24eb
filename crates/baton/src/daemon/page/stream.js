// The stream of events. One tab reads it and informs the others, because browsers open few connections to one host.
//
// Events of the log have positions. After an interruption the reader continues after the last one it has seen, so none is lost
// and none comes twice. Agents have no positions: after an interruption all of them are requested, and changes
// wait until they have arrived.

import { Refused, get, headers, loggedIn, refused } from "./api.js";

// The daemon says something every thirty seconds.
const SILENCE = 75000;
const channel = new BroadcastChannel("baton-events");

let last = null;
let sink = null;
let held = null;

/** Starts to follow. `target` has agents(list), agent(view), gone(id), log(line, id), link(state). */
export function follow(target) {
  sink = target;
  channel.addEventListener("message", ({ data }) => take(data));
  if (navigator.locks) {
    navigator.locks.request("baton-events", () => read());
    // The reading tab may have started long ago.
    resync();
  } else {
    read();
  }
}

function take(event) {
  if (event.kind === "log") {
    if (!isNewer(event.id)) return;
    last = event.id;
    sink.log(event.data, event.id);
  } else if (event.kind === "link") {
    sink.link(event.state);
  } else if (event.kind === "all") {
    resync();
  } else if (held !== null) {
    held.push(event);
  } else if (event.kind === "agent") {
    sink.agent(event.data);
  } else if (event.kind === "gone") {
    sink.gone(event.data.id);
  }
}

function tell(event) {
  take(event);
  channel.postMessage(event);
}

// `2026-11-18:1234`: a day and a position in its log.
function isNewer(id) {
  if (last === null) return true;
  const [day, at] = id.split(":");
  const [lastDay, lastAt] = last.split(":");
  return day > lastDay || (day === lastDay && Number(at) > Number(lastAt));
}

/** Requests all agents; changes until they arrive are applied afterwards. */
async function resync() {
  if (held !== null) return;
  held = [];
  try {
    await loggedIn();
    sink.agents((await get("/sessions")).sessions);
  } catch {
    // The next connection requests them again.
  }
  const changes = held;
  held = null;
  for (const change of changes) take(change);
}

async function read() {
  let pause = 250;
  for (;;) {
    await loggedIn();
    try {
      await readOnce(() => {
        pause = 250;
      });
    } catch (error) {
      if (error instanceof Refused && error.status === 401) continue;
    }
    tell({ kind: "link", state: "lost" });
    await new Promise((go) => setTimeout(go, pause));
    pause = Math.min(pause * 2, 5000);
  }
}

async function readOnce(connected) {
  const stop = new AbortController();
  const head = headers();
  if (last !== null) head["Last-Event-ID"] = last;
  const response = await fetch("/events?changes=true", { headers: head, cache: "no-store", signal: stop.signal });
  if (!response.ok) throw await refused(response);
  connected();
  tell({ kind: "link", state: "live" });
  tell({ kind: "all" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let watch = null;
  try {
    for (;;) {
      watch = setTimeout(() => stop.abort(), SILENCE);
      const { done, value } = await reader.read();
      clearTimeout(watch);
      if (done) return;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) parse(part);
    }
  } finally {
    clearTimeout(watch);
    stop.abort();
  }
}

function parse(part) {
  const event = {};
  for (const line of part.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) event[line.slice(0, at)] = line.slice(at + 2);
  }
  if (!event.data) return;
  const data = JSON.parse(event.data);
  if (event.event === "agent-changed") tell({ kind: "agent", data });
  else if (event.event === "agent-gone") tell({ kind: "gone", data });
  else if (event.event === "agents-changed") tell({ kind: "all" });
  else if (event.id) tell({ kind: "log", data, id: event.id });
}
