// Now: a card per agent, agents that need a person first.

import { button, clip, count, fill, h, since, tokens } from "./dom.js";
import { fleetPart, followFleet } from "./fleet.js";
import { requestCard, requestOf } from "./requests.js";
import { GROUPS, agents, group, ordered, store, subscribe } from "./store.js";
import { spawn } from "./actions.js";

// How many cards are built at once; the others follow when the browser is idle.
const AT_ONCE = 40;

const MARKS = { asks: "?", needs: "!", error: "\u2715", done: "\u2713", works: "\u25cf", fresh: "\u21bb", idle: "\u25cb", over: "\u2013" };

const ASKS = new Set(["permission", "question", "plan"]);

export function look(view) {
  if (view.needs) return view.needs.kind === "error" ? "error" : "needs";
  if (view.state === "working") return "works";
  if (view.state === "handing over") return "fresh";
  return group(view) === 3 ? "over" : "idle";
}

/** The state as a mark and in words, with its age. */
export function stateLine(view) {
  const kind = look(view);
  const from = view.needs?.since ?? view.state_since;
  return h(
    "p",
    { class: "state " + kind },
    h("span", { class: "mark", "aria-hidden": "true" }, ASKS.has(view.needs?.kind) ? MARKS.asks : MARKS[kind === "idle" && view.state === "done" ? "done" : kind]),
    h("span", null, view.words, " "),
    since(from),
  );
}

const LEVELS = { OK: "plenty of room", EARLY_WARN: "early warning", WARN: "was warned", CRITICAL: "asked for a handoff" };

/** How full the context is, up to where the client compacts. Rounds down. */
export function bar(view) {
  const end = view.compacts_at ?? view.window;
  if (!end || view.tokens === null) return h("div", { class: "bar empty" }, h("span", { class: "figures dim" }, "no reading yet"));
  const part = (n) => Math.max(0, Math.min(100, Math.floor((n / end) * 100)));
  const used = part(view.tokens);
  const left = view.left ?? Math.max(0, end - view.tokens);
  const turns = view.turns_left === null ? "" : ", about " + count(view.turns_left, "turn");
  const at = (n) => (n ? h("i", { class: "tick", style: { left: part(n) + "%" } }) : null);
  return h(
    "div",
    { class: "bar " + view.level.toLowerCase() },
    h(
      "div",
      {
        class: "track",
        role: "meter",
        "aria-label": "context of " + view.id,
        "aria-valuemin": "0",
        "aria-valuemax": "100",
        "aria-valuenow": String(used),
        "aria-valuetext": used + " % of the way to compaction, " + LEVELS[view.level],
        title: tokens(view.tokens) + " of " + tokens(end) + " tokens; warns at " + tokens(view.warn_at) + ", asks at " + tokens(view.ask_at),
      },
      h("b", { style: { width: used + "%" } }),
      at(view.warn_at),
      at(view.ask_at),
    ),
    h("span", { class: "figures" }, tokens(left) + " left" + turns),
  );
}

function card(view) {
  const request = view.needs ? requestOf(view.id) : null;
  const line = (name, text) => (text ? h("p", { class: "line" }, h("span", { class: "dim" }, name + " "), text) : null);
  const answer = view.done ?? view.last_answer;
  return h(
    "article",
    { class: "card " + look(view), data: { agent: view.id } },
    h(
      "header",
      null,
      h("h3", null, h("a", { href: "#/agent/" + encodeURIComponent(view.id) }, view.id)),
      h("span", { class: "dim where" }, view.project + (view.parent ? " \u00b7 of " + view.parent : "")),
      view.mail ? h("span", { class: "mail", title: count(view.mail, "message") + " for it" }, "\u2709 " + view.mail) : null,
    ),
    stateLine(view),
    request ? requestCard(request, { brief: true }) : null,
    bar(view),
    line("goal", view.goal),
    line("now", view.now),
    answer ? h("p", { class: "said" }, "\u201c" + clip(answer, 160) + "\u201d") : null,
  );
}

export function now(root) {
  const cards = new Map();
  const sections = GROUPS.map((name, n) => {
    const grid = h("div", { class: "grid" });
    const heading = h("h2", null, name);
    const section = h("section", { class: "group group" + n, hidden: true }, heading, grid);
    return { name, grid, heading, section, shown: [] };
  });
  const feed = h("ol", { id: "feed" });
  const nothing = h("div", { class: "empty", hidden: true });
  const elsewhere = h("section", { class: "group elsewhere", hidden: true });
  fill(
    root,
    h("h1", { class: "hidden" }, "Now"),
    nothing,
    sections.map((one) => one.section),
    elsewhere,
    h("div", { class: "tools" }, button("Start an agent\u2026", () => spawn())),
    h("section", { class: "feed", "aria-label": "What happened" }, h("h2", null, "Since this page was opened"), feed),
  );
  let later = null;

  // The content of a card; rebuilt only when it changes.
  const face = (view) => {
    const request = view.needs ? requestOf(view.id) : null;
    return JSON.stringify([view, request?.id ?? null]);
  };
  const cardOf = (view) => {
    const known = cards.get(view.id);
    const is = face(view);
    if (known?.is === is) return known.node;
    const node = card(view);
    if (known) {
      const had = known.node.contains(document.activeElement) ? document.activeElement.dataset.key ?? "h3 a" : null;
      known.node.replaceWith(node);
      if (had) (node.querySelector("[data-key='" + CSS.escape(had) + "']") ?? node.querySelector("h3 a")).focus();
    }
    cards.set(view.id, { node, is });
    return node;
  };

  function place() {
    clearTimeout(later);
    const list = ordered();
    for (const id of [...cards.keys()].filter((id) => !agents.has(id))) {
      cards.get(id).node.remove();
      cards.delete(id);
    }
    const lists = sections.map(() => []);
    for (const view of list) lists[group(view)].push(view);
    for (const [n, one] of sections.entries()) {
      one.section.hidden = lists[n].length === 0;
      const text = one.name + " \u00b7 " + lists[n].length;
      if (one.heading.textContent !== text) one.heading.textContent = text;
    }
    nothing.hidden = list.length > 0;
    if (!store.loaded) {
      fill(nothing, h("p", null, "Loading\u2026"));
    } else if (!nothing.hidden && !nothing.querySelector("code")) {
      fill(
        nothing,
        h("p", null, "No agent has run today."),
        h("p", { class: "dim" }, h("code", null, "baton run"), " starts one in a terminal; ", h("code", null, "baton install"), " makes the clients that you start yourself show up."),
      );
    }
    let made = 0;
    const queue = lists.flatMap((views, n) => views.map((view) => [n, view]));
    const next = () => {
      const until = made === 0 ? AT_ONCE : made + 100;
      const ends = sections.map(() => null);
      for (const [n, view] of queue.slice(0, made)) ends[n] = cards.get(view.id)?.node ?? ends[n];
      for (; made < Math.min(until, queue.length); made += 1) {
        const [n, view] = queue[made];
        if (!agents.has(view.id)) continue;
        const node = cardOf(agents.get(view.id));
        const after = ends[n] ? ends[n].nextSibling : sections[n].grid.firstChild;
        if (node !== after) sections[n].grid.insertBefore(node, after);
        ends[n] = node;
      }
      if (made < queue.length) later = setTimeout(next, 0);
    };
    next();
  }

  function happened() {
    fill(
      feed,
      store.happened.slice(0, 30).map((one) =>
        h(
          "li",
          { data: { event: one.id } },
          since(one.at, "", " ago"),
          " ",
          h("a", { href: "#/agent/" + encodeURIComponent(one.agent) }, one.agent),
          " " + one.say,
          one.handoff ? [" ", h("a", { href: "#/handoff/" + encodeURIComponent(one.handoff) }, one.handoff)] : null,
        ),
      ),
      store.happened.length ? null : h("li", { class: "dim" }, "Nothing yet."),
    );
  }

  function others() {
    const part = fleetPart();
    elsewhere.hidden = part === null;
    fill(elsewhere, part ?? []);
  }

  place();
  happened();
  others();
  const leaveFleet = followFleet();
  const stop = subscribe(({ kinds, ids }) => {
    if (kinds.has("happened")) happened();
    if (kinds.has("fleet")) others();
    if (kinds.has("agents") || kinds.has("approvals")) return place();
    if (!kinds.has("agent")) return;
    // Most changes affect a figure on one card; a card moves only when its group changes.
    for (const id of ids) {
      const [view, known] = [agents.get(id), cards.get(id)];
      const isThere = view && known && known.node.parentNode === sections[group(view)].grid && group(view) !== 0;
      if (!isThere) return place();
      cardOf(view);
    }
  });
  return () => {
    stop();
    leaveFleet();
    clearTimeout(later);
  };
}
