// A conversation from its newest entry, in pages: older ones load while scrolling up, newer ones as they happen.

import { get } from "./api.js";
import { age, button, clip, clock, exact, fill, h } from "./dom.js";
import { diff, markdown } from "./markdown.js";

const PAGE = 60;
// Keep at most this many entries; load distant ones again when needed.
const MOST = 600;

/** How long a tool call took. */
function took(entry) {
  const end = Date.parse(entry.result?.at);
  return end - Date.parse(entry.at) >= 1000 ? age(entry.at, end) : "";
}

function when(at) {
  return at ? h("time", { class: "when", datetime: at, title: exact(at) }, clock(at)) : null;
}

function tool(entry) {
  const result = entry.result;
  const [sign, word] = result ? (result.failed ? ["\u2717", "failed"] : ["\u2713", "done"]) : ["\u2026", "runs"];
  const exit = result && Number.isInteger(result.exit) && result.exit !== 0 ? "exit " + result.exit : "";
  const isSubagent = entry.text.startsWith("subagent:");
  const node = h(
    "details",
    { class: "tool " + (result ? (result.failed ? "failed" : "done") : "runs") + (isSubagent ? " subagent" : "") },
    h(
      "summary",
      null,
      h("span", { class: "sign", "aria-hidden": "true" }, sign),
      h("span", { class: "hidden" }, word + ": "),
      h("span", { class: "call" }, clip(entry.text.split("\n")[0], 300)),
      h("span", { class: "dim" }, [exit, took(entry)].filter(Boolean).join(" \u00b7 ")),
    ),
  );
  // Build it when it is opened, because most never are.
  const unfold = () => {
    if (node.dataset.made) return;
    node.dataset.made = "1";
    if (entry.text.includes("\n") || entry.text.length > 300) node.append(h("pre", { class: "code", tabindex: "0", "aria-label": "call" }, entry.text));
    if (entry.diff) node.append(diff(entry.diff));
    if (result?.text) node.append(h("pre", { class: "code output", tabindex: "0", "aria-label": "output" }, result.text));
    if (!entry.diff && !result?.text) node.append(h("p", { class: "dim" }, result ? "No output." : "Still running."));
  };
  node.addEventListener("toggle", unfold);
  if (entry.diff) {
    node.open = true;
    unfold();
  }
  return node;
}

function words(entry, who, name) {
  return h("div", { class: "words " + who }, h("p", { class: "who" }, name, " ", when(entry.at)), h("div", { class: "prose" }, markdown(entry.text)));
}

function render(entry) {
  if (entry.kind === "prompt") return words(entry, entry.from === "user" ? "you" : "other", entry.from === "user" ? "you" : entry.from);
  if (entry.kind === "reply") return words(entry, "agent", "agent");
  if (entry.kind === "tool") return tool(entry);
  return h("p", { class: "note" }, entry.text, " ", when(entry.at));
}

/**
 * A conversation in an element that scrolls. Pages are requested from `path`; `at` is the offset of an entry to begin with
 * instead of the newest.
 */
export function conversation(path, { at = null, label = "Conversation" } = {}) {
  const older = h("p", { class: "edge dim", role: "status" });
  const newer = h("p", { class: "edge dim", role: "status" });
  const list = h("div", { class: "entries" });
  const box = h("div", { class: "conversation", tabindex: "0", role: "region", "aria-label": label }, older, list, newer);
  const jump = button("\u2193 Newest", () => restart(), { class: "jump", hidden: true });
  const root = h("div", { class: "talk" }, box, jump);
  // The displayed entries, oldest first: entry, its node, and the data that it was made from.
  let shown = [];
  let before = null;
  let atEnd = true;
  let busy = null;
  let gone = false;

  const ask = (query) => get(path + (path.includes("?") ? "&" : "?") + query + "&limit=" + PAGE);
  const made = (entries) => entries.map((entry) => ({ entry, is: JSON.stringify(entry), node: render(entry) }));

  // One operation at a time; later ones wait.
  const alone = (act) => {
    busy = (busy ?? Promise.resolve()).then(() => (gone ? null : act())).catch((error) => fill(newer, error.message));
    return busy;
  };

  const follows = () => atEnd && box.scrollHeight - box.scrollTop - box.clientHeight < 60;

  function edges() {
    fill(older, shown.length && before === null ? "The conversation begins here." : "");
    jump.hidden = follows();
  }

  async function first() {
    const page = at === null ? await ask("") : null;
    if (page) {
      before = page.next;
      shown = made(page.entries);
      atEnd = true;
      fill(list, shown.map((one) => one.node));
      if (!shown.length) fill(newer, "Nothing was said yet.");
      else fill(newer);
      box.scrollTop = box.scrollHeight;
    } else {
      const [behind, ahead] = await Promise.all([ask("before=" + at), ask(at > 0 ? "after=" + (at - 1) : "after=0")]);
      before = behind.next;
      shown = made([...behind.entries, ...ahead.entries]);
      atEnd = !ahead.more;
      fill(list, shown.map((one) => one.node));
      const target = shown.find((one) => one.entry.offset === at) ?? shown[behind.entries.length];
      if (target) {
        target.node.classList.add("target");
        if (target.node.tagName === "DETAILS") target.node.open = true;
        target.node.scrollIntoView({ block: "center" });
      }
    }
    edges();
    // A page of short entries may not fill the box.
    if (box.scrollHeight <= box.clientHeight && before !== null) await up();
  }

  async function up() {
    if (before === null) return;
    fill(older, "Loading\u2026");
    let page = await ask("before=" + before);
    // A stretch without entries: a line longer than any record, for instance.
    for (let tries = 0; page.entries.length === 0 && page.next !== null && tries < 20; tries += 1) {
      before = page.next;
      page = await ask("before=" + before);
    }
    before = page.next;
    const more = made(page.entries);
    const height = box.scrollHeight - box.scrollTop;
    list.prepend(...more.map((one) => one.node));
    shown = [...more, ...shown];
    if (shown.length > MOST) {
      for (const one of shown.splice(MOST)) one.node.remove();
      atEnd = false;
    }
    box.scrollTop = box.scrollHeight - height;
    edges();
  }

  async function down() {
    if (atEnd || !shown.length) return;
    const page = await ask("after=" + shown.at(-1).entry.offset);
    const more = made(page.entries);
    list.append(...more.map((one) => one.node));
    shown.push(...more);
    atEnd = !page.more;
    trimTop();
    edges();
  }

  function trimTop() {
    if (shown.length <= MOST) return;
    const height = box.scrollHeight;
    const cut = shown.splice(0, shown.length - MOST);
    before = shown[0].entry.offset;
    for (const one of cut) one.node.remove();
    box.scrollTop -= height - box.scrollHeight;
  }

  /** Loads the entries since, and the results of open calls. */
  async function more() {
    if (!atEnd) return;
    if (!shown.length) return first();
    const stays = follows();
    const open = shown.findIndex((one, n) => n >= shown.length - 80 && one.entry.kind === "tool" && !one.entry.result);
    let keep = open > 0 ? open : shown.length;
    // The entries of one record are never split.
    while (keep > 0 && keep < shown.length && shown[keep - 1].entry.offset === shown[keep].entry.offset) keep -= 1;
    if (keep === 0) return;
    const page = await ask("after=" + shown[keep - 1].entry.offset);
    const next = page.entries.map((entry, n) => {
      const known = shown[keep + n];
      const is = JSON.stringify(entry);
      if (known?.is === is) return known;
      const fresh = { entry, is, node: render(entry) };
      if (known && known.entry.offset === entry.offset && known.node.open) fresh.node.open = true;
      return fresh;
    });
    for (const one of shown.slice(keep)) if (!next.includes(one)) one.node.remove();
    shown = [...shown.slice(0, keep), ...next];
    for (const one of next) list.append(one.node);
    atEnd = !page.more;
    if (stays) {
      trimTop();
      box.scrollTop = box.scrollHeight;
    }
    edges();
    if (page.more) await (stays ? down() : null);
  }

  function restart() {
    at = null;
    alone(first);
  }

  let going = false;
  function scrolled() {
    jump.hidden = follows();
    const act = box.scrollTop < 400 && before !== null ? up : !atEnd && box.scrollHeight - box.scrollTop - box.clientHeight < 400 ? down : null;
    if (act === null || going || gone) return;
    going = true;
    const ends = () => shown[0]?.entry.offset + " " + shown.at(-1)?.entry.offset;
    const had = ends();
    alone(act).finally(() => {
      going = false;
      // The person may have scrolled on meanwhile and wait for more.
      if (ends() !== had) scrolled();
    });
  }
  box.addEventListener("scroll", scrolled, { passive: true });

  let due = null;
  alone(first);
  return {
    root,
    /** Something has happened; several events cause one update. */
    changed() {
      due ??= setTimeout(() => {
        due = null;
        alone(more);
      }, 150);
    },
    /** Loads all of it, for printing. */
    async all() {
      while (before !== null && shown.length < MOST) await alone(up);
    },
    stop() {
      gone = true;
      clearTimeout(due);
    },
  };
}
