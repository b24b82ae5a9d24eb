// Tasks: each agent's chain of contexts over days, how each ended, and what each handed to the next.

import { get } from "./api.js";
import { showHandoff, showHop } from "./actions.js";
import { age, button, clip, clock, count, exact, fill, h, since, tokens } from "./dom.js";
import { store, subscribe } from "./store.js";

const RANGES = [
  ["1 day", 1],
  ["7 days", 7],
  ["30 days", 30],
];
const ENDS = {
  running: "running",
  rotated: "handed over to a fresh context",
  left: "the agent went on without a handoff",
  ended: "ended",
  crashed: "its client died",
};

export function tasks(root) {
  const list = h("div", { class: "timeline" });
  const ranges = h("div", { class: "ranges", role: "group", "aria-label": "How far back" });
  let [days, answer, due, gone] = [7, null, null, false];

  async function read() {
    const from = new Date(Date.now() - days * 86400000).toISOString();
    try {
      answer = await get("/tasks?since=" + encodeURIComponent(from));
    } catch (error) {
      return fill(list, h("p", { class: "dim" }, error.message));
    }
    if (!gone) draw();
  }

  function draw() {
    const from = Date.parse(answer.since);
    const to = Date.now();
    const part = (at) => Math.max(0, Math.min(100, ((at - from) / (to - from)) * 100));
    // A label for each day, or every few hours if there is room.
    const step = days === 1 ? 6 * 3600000 : days === 7 ? 86400000 : 5 * 86400000;
    const names = [];
    const begin = new Date(from);
    begin.setHours(days === 1 ? begin.getHours() + 1 : 24, 0, 0, 0);
    for (let at = begin.getTime(); at < to - step / 4; at += step) {
      const words = days === 1 ? clock(at) : new Date(at).toLocaleDateString([], days === 7 ? { weekday: "short" } : { day: "numeric", month: "short" });
      names.push(h("span", { style: { left: part(at) + "%" } }, words));
    }
    const rows = answer.tasks
      .toSorted((a, b) => Date.parse(b.last) - Date.parse(a.last))
      .map((task) => {
        const pieces = task.contexts.map((context) => {
          const [begin, end] = [part(Date.parse(context.from)), part(context.to ? Date.parse(context.to) : to)];
          const label =
            "session " + context.session.slice(0, 8) + ", " + exact(context.from) + ", lasted " + age(context.from, context.to ? Date.parse(context.to) : to) +
            (context.tokens ? ", " + tokens(context.tokens) + " tokens" : "") + ": " + ENDS[context.end];
          return h(
            "a",
            { class: "piece " + context.end, href: "#/conversation/" + encodeURIComponent(context.session), title: label, "aria-label": label, style: { left: Math.min(begin, 99.4) + "%", width: Math.max(0.35, end - begin) + "%" } },
          );
        });
        const marks = task.handoffs.map((handoff) => {
          const label = "handoff " + handoff.id + ", " + exact(handoff.at) + (handoff.wrote ? ", in the agent's words" : ", from the transcript");
          return h("button", { type: "button", class: "hop", title: label, "aria-label": label, data: { handoff: handoff.id }, style: { left: part(Date.parse(handoff.at)) + "%" }, on: { click: () => showHop(handoff.id) } }, "\u25c6");
        });
        return h(
          "article",
          { class: "task", data: { agent: task.agent } },
          h(
            "header",
            null,
            h("h2", null, h("a", { href: "#/agent/" + encodeURIComponent(task.agent) }, task.agent)),
            h("span", { class: "dim" }, task.project + " \u00b7 " + task.words),
            h("p", { class: "line" }, task.about ? clip(task.about, 140) : ""),
          ),
          h("div", { class: "lane" }, pieces, marks),
          h("p", { class: "dim hops" }, hops(task)),
        );
      });
    fill(
      list,
      rows.length ? h("div", { class: "days", "aria-hidden": "true" }, h("div", null, names)) : h("p", { class: "empty" }, "No task in this time."),
      rows,
      answer.left_out ? h("p", { class: "dim" }, answer.left_out + " more are not shown; baton sessions tree lists them all.") : null,
    );
  }

  function hops(task) {
    const last = task.handoffs.at(-1);
    const words = [count(task.contexts.length, "context"), last ? count(task.handoffs.length, "handoff") : null].filter(Boolean).join(", ");
    return [
      words + ", last ",
      since(task.last, "", " ago"),
      last ? [" \u00b7 ", h("button", { type: "button", class: "plain", on: { click: () => showHop(last.id) } }, "what the last handoff carried and left"), " \u00b7 ", h("button", { type: "button", class: "plain", on: { click: () => showHandoff(last.id) } }, "its document")] : null,
    ];
  }

  function range() {
    fill(ranges, RANGES.map(([name, n]) => button(name, () => {
      days = n;
      range();
      read();
    }, { class: "quiet", "aria-pressed": String(n === days) })));
  }

  fill(
    root,
    h("div", { class: "bar-line page-head" }, h("h1", null, "Tasks"), h("span", { class: "spacer" }), ranges),
    h(
      "p",
      { class: "legend dim" },
      Object.entries(ENDS).map(([end, words]) => h("span", null, h("i", { class: "piece " + end, "aria-hidden": "true" }), words)),
      h("span", null, h("i", { class: "hop", "aria-hidden": "true" }, "\u25c6"), "handoff: what it carried and left"),
    ),
    list,
  );
  range();
  read();
  const stop = subscribe(({ kinds }) => {
    const isBack = kinds.has("link") && store.link === "live" && !answer;
    if (isBack || kinds.has("happened") || kinds.has("agents")) due ??= setTimeout(() => {
      due = null;
      read();
    }, 1500);
  });
  return () => {
    gone = true;
    stop();
    clearTimeout(due);
  };
}
