// The page's data: agents, waiting requests, messages, and the events since it was opened.

import { get } from "./api.js";

export const agents = new Map();
export const store = {
  loaded: false,
  approvals: [],
  terminals: [],
  inbox: [],
  mayChange: false,
  happened: [],
  fleet: { machine: null, link: null, news: null, machines: [] },
};

const listeners = new Set();
let due = null;

/** Calls `listen` with the kinds of data that have changed, at most once per frame. */
export function subscribe(listen) {
  listeners.add(listen);
  return () => listeners.delete(listen);
}

export function changed(kind, id) {
  if (due === null) {
    due = { kinds: new Set(), ids: new Set() };
    // A hidden tab has no frames.
    const flush = () => {
      const now = due;
      due = null;
      for (const listen of [...listeners]) listen(now);
    };
    if (document.hidden) setTimeout(flush, 0);
    else requestAnimationFrame(flush);
  }
  due.kinds.add(kind);
  if (id) due.ids.add(id);
}

let approvalsDue = false;
let inboxDue = false;

/** Reloads what waits; several causes at once make one request. */
export async function readApprovals() {
  if (approvalsDue) return;
  approvalsDue = true;
  try {
    await Promise.resolve();
    const answer = await get("/approvals");
    store.approvals = answer.approvals;
    store.terminals = answer.at_terminals;
    changed("approvals");
  } catch {
    // Asked again at the next change.
  } finally {
    approvalsDue = false;
  }
}

export async function readInbox() {
  if (inboxDue) return;
  inboxDue = true;
  try {
    await Promise.resolve();
    store.inbox = (await get("/inbox")).messages;
    changed("inbox");
  } catch {
    // Asked again at the next change.
  } finally {
    inboxDue = false;
  }
}

/** Loads the data about other machines. */
export async function readFleet() {
  try {
    const fleet = await get("/fleet");
    if (JSON.stringify(fleet) === JSON.stringify(store.fleet)) return;
    store.fleet = fleet;
    changed("fleet");
  } catch {
    // Asked again in a while.
  }
}

export async function readRights() {
  try {
    store.mayChange = (await get("/page")).may_change;
    changed("rights");
  } catch {
    // Asked again after the next login.
  }
}

const NOTABLE = {
  "session-start": (line) =>
    line.detail?.handoff
      ? "goes on in a fresh context"
      : line.detail?.source === "startup"
        ? "started"
        : null,
  "rotation-requested": () => "handed over",
  "pre-compact": () => "its client compacts",
  "session-died": () => "died",
  "stop-failure": (line) => (line.detail?.error === "rate_limit" ? "reached a usage limit" : "its turn ended in an error"),
  "approval-asked": () => "asks",
  "approval-answered": () => "was answered",
  "mail-sent": () => null,
};

/** The handlers of events. */
export const sink = {
  agents(list) {
    const gone = new Set(agents.keys());
    for (const view of list) {
      agents.set(view.id, view);
      gone.delete(view.id);
    }
    for (const id of gone) agents.delete(id);
    store.loaded = true;
    changed("agents");
    readApprovals();
    readInbox();
  },
  agent(view) {
    const before = agents.get(view.id);
    agents.set(view.id, view);
    changed("agent", view.id);
    if (!before) changed("agents");
    if (before?.unread !== view.unread) readInbox();
    if (before?.needs?.since !== view.needs?.since || before?.needs?.kind !== view.needs?.kind) readApprovals();
  },
  gone(id) {
    if (agents.delete(id)) changed("agents");
  },
  log(line, id) {
    if (line.event.startsWith("approval-")) readApprovals();
    const say = NOTABLE[line.event]?.(line);
    if (say && line.agent) {
      store.happened.unshift({ id, at: line.at, agent: line.agent, say, handoff: line.detail?.handoff ?? null });
      store.happened.length = Math.min(store.happened.length, 200);
      changed("happened");
    }
    if (line.agent) changed("log", line.agent);
  },
  link(state) {
    store.link = state;
    changed("link");
  },
};

/** The fields of an agent that decide its place. */
export function group(view) {
  if (view.needs) return 0;
  if (view.state === "working" || view.state === "handing over") return 1;
  if (view.state === "ended" || view.state === "retired") return 3;
  return 2;
}

export const GROUPS = ["Needs you", "Working", "Idle", "Over"];

/** Agents in display order: those that need a person first, the longest wait on top. */
export function ordered() {
  const list = [...agents.values()];
  return list.sort(
    (a, b) =>
      group(a) - group(b) ||
      (a.needs && b.needs ? Date.parse(a.needs.since) - Date.parse(b.needs.since) : 0) ||
      (a.id < b.id ? -1 : 1),
  );
}
