// One agent: its context over time, its chain, its mail and its conversation.

import { get } from "./api.js";
import { cancel, retire, rotate, sendForm, showHandoff, showHop, undo } from "./actions.js";
import { chart, markList } from "./chart.js";
import { conversation } from "./conversation.js";
import { attempt, open } from "./dialogs.js";
import { age, button, clip, count, exact, fill, h, since, size, tokens } from "./dom.js";
import { markdown } from "./markdown.js";
import { bar, look, stateLine } from "./now.js";
import { requestCard, requestOf } from "./requests.js";
import { agents, ordered, store, subscribe } from "./store.js";

const RANGES = [
  ["3h", 3],
  ["24h", 24],
  ["7d", 168],
];
const SOURCES = { startup: "started", clear: "fresh context", compact: "compacted", resume: "resumed", fork: "forked", seen: "seen" };

/** The list of all agents, as a tree. */
function tree(present) {
  const list = ordered();
  const known = new Set(list.map((view) => view.id));
  const rows = [];
  const add = (view, depth) => {
    rows.push(
      h(
        "a",
        { class: "row " + look(view) + " depth" + Math.min(depth, 3), href: "#/agent/" + encodeURIComponent(view.id), "aria-current": view.id === present ? "page" : null },
        h("span", { class: "name" }, view.id),
        h("span", { class: "dim short" }, clip(view.needs ? view.needs.text : view.words, 42)),
      ),
    );
    for (const child of list.filter((one) => one.parent === view.id)) if (depth < 8) add(child, depth + 1);
  };
  // With very many agents, show only the first ones here; the search finds the others.
  for (const view of list.filter((one) => !one.parent || !known.has(one.parent)).slice(0, 200)) add(view, 0);
  return rows;
}

export function agent(root, { id }) {
  const side = h("nav", { class: "tree", "aria-label": "Agents" });
  const head = h("div", { class: "head" });
  const ask = h("div");
  const facts = h("dl", { class: "facts" });
  const graph = h("div", { class: "graph" });
  const ranges = h("div", { class: "ranges", role: "group", "aria-label": "How far back" });
  const happened = h("details", null, h("summary", null, "What happened to its context"));
  const chain = h("details", { class: "chain" }, h("summary", null, "Its chain of sessions"));
  const mail = h("details", { class: "mails" }, h("summary", null, "Messages"));
  const talk = h("section", { class: "panel talk-panel", "aria-label": "Conversation of " + id });
  const view = () => agents.get(id);
  let [levels, hours, shownSession, talking] = [null, 24, null, null];
  let gone = false;
  let levelsDue = null;
  let sendAt = null;

  const marked = (mark) => mark.handoff && showHandoff(mark.handoff);
  function draw() {
    if (!levels || gone) return;
    const width = Math.max(280, Math.floor(graph.clientWidth));
    fill(graph, chart(levels, width, marked), levels.points.length ? null : h("p", { class: "dim over" }, "No reading in this time."));
    fill(happened, h("summary", null, "What happened to its context \u00b7 " + levels.marks.length), markList(levels, marked));
  }
  async function readLevels() {
    const from = new Date(Date.now() - hours * 3600000).toISOString();
    try {
      levels = await get("/sessions/" + encodeURIComponent(id) + "/levels?since=" + encodeURIComponent(from));
      draw();
    } catch (error) {
      fill(graph, h("p", { class: "dim" }, error.message));
    }
  }
  function range() {
    fill(
      ranges,
      RANGES.map(([name, n]) =>
        button(name, () => {
          hours = n;
          range();
          readLevels();
        }, { "aria-pressed": String(n === hours), class: "quiet" }),
      ),
    );
  }

  async function readChain() {
    const answer = await attempt(() => get("/sessions/" + encodeURIComponent(id) + "/chain"));
    if (!answer || gone) return;
    fill(
      chain,
      h("summary", null, "Its chain \u00b7 " + count(answer.sessions.length, "session") + ", " + count(answer.hops.length + answer.earlier, "handoff")),
      h(
        "ol",
        { class: "sessions" },
        answer.sessions.toReversed().map((session) =>
          h(
            "li",
            { "aria-current": session.id === view()?.session ? "true" : null },
            h("button", { type: "button", class: "plain", on: { click: () => show(session.id) } }, session.id.slice(0, 8)),
            " ",
            h("time", { datetime: session.started, title: exact(session.started), class: "dim" }, age(session.started) + " ago"),
            " " + (SOURCES[session.source] ?? session.source) + (session.tokens ? ", " + tokens(session.tokens) + " tokens" : ""),
            session.handoff ? [" \u25c6 ", h("button", { type: "button", class: "plain", on: { click: () => showHop(session.handoff) } }, session.handoff)] : null,
          ),
        ),
      ),
    );
  }

  async function readMail() {
    const answer = await attempt(() => get("/sessions/" + encodeURIComponent(id) + "/messages?limit=20"));
    if (!answer || gone) return;
    const said = { queued: "waits", delivered: "seen", expired: "expired", failed: "failed" };
    fill(
      mail,
      h("summary", null, "Messages \u00b7 " + (answer.messages.length + answer.left_out)),
      h(
        "ol",
        { class: "messages" },
        answer.messages.toReversed().map((message) =>
          h(
            "li",
            { data: { message: message.id, state: message.state } },
            h("p", { class: "who" }, message.from, " ", since(message.at, "", " ago"), " ", h("strong", null, said[message.state] ?? message.state), message.since ? since(message.since, " ", " ago") : null),
            h("p", null, clip(message.text, 400)),
            message.evidence ? h("p", { class: "dim" }, message.evidence) : null,
          ),
        ),
      ),
    );
  }

  async function showDraft() {
    const draft = await attempt(() => get("/sessions/" + encodeURIComponent(id) + "/draft"));
    if (draft) open("The handoff as it would be sealed now", () => h("div", { class: "prose document" }, markdown(draft.document)), { wide: true });
  }

  async function subagents(session) {
    try {
      const answer = await get("/conversations/" + encodeURIComponent(session) + "/subagents");
      if (!answer.subagents.length || gone) return null;
      return h(
        "details",
        { class: "subagents" },
        h("summary", null, count(answer.subagents.length, "subagent")),
        h(
          "ul",
          null,
          answer.subagents.map((one) =>
            h("li", null, h("a", { href: "#/conversation/" + encodeURIComponent(session) + "?subagent=" + encodeURIComponent(one.name) }, one.name), " ", one.about, h("span", { class: "dim" }, " " + size(one.bytes))),
          ),
        ),
      );
    } catch {
      return null;
    }
  }

  /** The conversation of one of its sessions. */
  async function show(session) {
    talking?.stop();
    shownSession = session;
    if (!session) return fill(talk, h("h2", null, "Conversation"), h("p", { class: "dim" }, "It has none yet."));
    const isPresent = session === view()?.session;
    talking = conversation("/conversations/" + encodeURIComponent(session), { label: "Conversation of " + id });
    fill(
      talk,
      h(
        "header",
        { class: "bar-line" },
        h("h2", null, "Conversation" + (isPresent ? "" : " " + session.slice(0, 8))),
        h("span", { class: "spacer" }),
        isPresent ? null : button("Show the current one", () => show(view()?.session), { class: "quiet" }),
        button("Print", async () => {
          await talking.all();
          print();
        }, { class: "quiet" }),
      ),
      h("div", { class: "sub-slot" }),
      talking.root,
      h("div", { class: "compose" }, sendAt ?? null),
    );
    const found = await subagents(session);
    if (found && shownSession === session) talk.querySelector(".sub-slot")?.append(found);
  }

  // Neither request nor show anything of an agent that does not exist.
  const parts = [
    h("section", { class: "panel", "aria-label": "Context over time" }, h("div", { class: "bar-line" }, h("h2", null, "Context"), h("span", { class: "spacer" }), ranges), graph, happened),
    talk,
    h("section", { class: "panel" }, chain, mail, h("details", null, h("summary", null, "Figures and places"), facts)),
  ];
  let isRead = false;
  function read() {
    if (isRead || !view()) return;
    isRead = true;
    readLevels();
    readChain();
    readMail();
  }

  let faceIs = "";
  function face() {
    const is = view();
    for (const part of parts) part.hidden = !is && store.loaded;
    if (!is) {
      fill(head, h("h1", null, id), h("p", { class: "dim" }, store.loaded ? "There is no such agent, or it ended more than a day ago." : "Loading\u2026"));
      return;
    }
    const request = requestOf(id);
    const now = JSON.stringify([is, request?.id, store.approvals.length]);
    if (now === faceIs) return;
    faceIs = now;
    fill(
      head,
      h("div", { class: "bar-line" }, h("h1", null, is.id), h("span", { class: "dim" }, is.project), h("span", { class: "spacer" }),
        h(
          "div",
          { class: "orders" },
          button("Rotate\u2026", () => rotate(view())),
          is.undo_to ? button("Undo\u2026", () => undo(view())) : null,
          is.pending || is.rotation ? button("Take handoff back\u2026", () => cancel(view())) : null,
          button("Draft", showDraft),
          button("Retire\u2026", () => retire(view())),
        ),
      ),
      stateLine(is),
      bar(is),
      is.goal ? h("p", { class: "line" }, h("span", { class: "dim" }, "goal "), is.goal) : null,
      is.now ? h("p", { class: "line" }, h("span", { class: "dim" }, "now "), is.now) : null,
      is.done ?? is.last_answer ? h("p", { class: "said" }, "\u201c" + (is.done ?? is.last_answer) + "\u201d") : null,
      is.pending ? h("p", { class: "line" }, "A handoff is written; it waits for " + is.pending.waits_for) : null,
    );
    fill(ask, request ? requestCard(request) : null);
    const fact = (name, value) => (value === null || value === undefined || value === "" ? null : [h("dt", null, name), h("dd", null, value)]);
    fill(
      facts,
      fact("model", is.model),
      fact("lives in", is.place),
      fact("folder", is.cwd),
      fact("tokens", is.tokens === null ? null : tokens(is.tokens) + " of a window of " + tokens(is.window)),
      fact("warns / asks / compacts at", is.warn_at ? [is.warn_at, is.ask_at, is.compacts_at].map(tokens).join(" / ") : null),
      is.last_handoff ? [h("dt", null, "last handoff"), h("dd", null, h("button", { type: "button", class: "plain", on: { click: () => showHandoff(is.last_handoff) } }, is.last_handoff))] : null,
      is.parent ? [h("dt", null, "child of"), h("dd", null, h("a", { href: "#/agent/" + encodeURIComponent(is.parent) }, is.parent))] : null,
    );
    if (!sendAt) {
      sendAt = sendForm(is, () => {
        mail.open = true;
        readMail();
      });
      talk.querySelector(".compose")?.append(sendAt);
    }
    if (shownSession === null && is.session) show(is.session);
  }

  fill(
    root,
    h(
      "div",
      { class: "split" },
      side,
      h(
        "div",
        { class: "agent" },
        h("section", { class: "panel" }, head, ask),
        parts,
      ),
    ),
  );
  fill(side, tree(id));
  face();
  range();
  read();
  if (!shownSession) fill(talk, h("h2", null, "Conversation"), h("div", { class: "compose" }, sendAt));
  const sized = new ResizeObserver(() => draw());
  sized.observe(graph);
  const stop = subscribe(({ kinds, ids }) => {
    if (kinds.has("agents") || kinds.has("agent")) fill(side, tree(id));
    const isMine = ids.has(id) || kinds.has("agents");
    if (kinds.has("approvals") || kinds.has("rights") || isMine) face();
    if (!isMine) return;
    read();
    const present = view()?.session;
    if (present && shownSession && present !== shownSession && !agents.get(id).ended && talk.dataset.of === shownSession) show(present);
    talk.dataset.of = present ?? "";
    talking?.changed();
    levelsDue ??= setTimeout(() => {
      levelsDue = null;
      readLevels();
      if (mail.open) readMail();
      if (chain.open) readChain();
    }, 400);
  });
  return () => {
    gone = true;
    stop();
    sized.disconnect();
    talking?.stop();
    clearTimeout(levelsDue);
  };
}

/** A conversation of any session, opened from a search or a subagent. */
export function past(root, { id, query }) {
  const at = query.has("at") ? Number(query.get("at")) : null;
  const name = query.get("subagent");
  const path = "/conversations/" + encodeURIComponent(id) + (name ? "?subagent=" + encodeURIComponent(name) : "");
  const talking = conversation(path, { at: Number.isFinite(at) ? at : null });
  fill(
    root,
    h(
      "section",
      { class: "panel talk-panel past" },
      h(
        "header",
        { class: "bar-line" },
        h("h1", null, name ?? "Conversation " + id.slice(0, 8)),
        h("span", { class: "spacer" }),
        button("Back", () => history.back(), { class: "quiet" }),
        button("Print", async () => {
          await talking.all();
          print();
        }, { class: "quiet" }),
      ),
      talking.root,
    ),
  );
  return () => talking.stop();
}
