// The page: login, navigation and keys.

import { askTabs, isLoggedIn, login } from "./api.js";
import { agent, past } from "./agent.js";
import { showHandoff } from "./actions.js";
import { open, switchRights } from "./dialogs.js";
import { fill, h, tick } from "./dom.js";
import { health } from "./health.js";
import { inbox } from "./inbox.js";
import { now } from "./now.js";
import { search } from "./search.js";
import { agents, group, readRights, sink, store, subscribe } from "./store.js";
import { follow } from "./stream.js";
import { tasks } from "./tasks.js";

const VIEWS = [
  ["now", "Now", "\u25c9"],
  ["tasks", "Tasks", "\u2261"],
  ["search", "Search", "\u2315"],
  ["inbox", "Inbox", "\u2709"],
  ["health", "Health", "\u2665"],
];
const SHOW = { now, tasks, search, inbox, health, agent, conversation: past };
const main = document.getElementById("main");
const nav = document.getElementById("nav");
let leaveView = null;
let shownHash = null;

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", id = ""] = path.split("/");
  return { view: view || "now", id: decodeURIComponent(id), query: new URLSearchParams(query) };
}

function route() {
  if (!location.hash.startsWith("#/") && location.hash !== "") return;
  const at = place();
  if (at.view === "handoff") {
    showHandoff(at.id);
    history.replaceState(null, "", shownHash ?? "#/now");
    return;
  }
  if (!Object.hasOwn(SHOW, at.view)) at.view = "now";
  leaveView?.();
  shownHash = location.hash || "#/now";
  sessionStorage.setItem("baton.place", shownHash);
  document.body.dataset.view = at.view;
  for (const link of nav.children) {
    const isHere = link.dataset.view === at.view || (link.dataset.view === "now" && at.view === "agent");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.scrollTop = 0;
  scrollTo(0, 0);
  leaveView = SHOW[at.view](main, at);
  title();
}

function title() {
  const waiting = [...agents.values()].filter((view) => group(view) === 0).length;
  const at = place();
  const name = at.view === "agent" ? at.id : (VIEWS.find(([view]) => view === at.view)?.[1] ?? "baton");
  document.title = (waiting ? "(" + waiting + ") " : "") + name + " \u00b7 baton";
}

function frame() {
  fill(
    nav,
    VIEWS.map(([view, name, sign]) => h("a", { href: "#/" + view, data: { view } }, h("span", { class: "sign", "aria-hidden": "true" }, sign), name, h("span", { class: "badge", hidden: true }))),
  );
  document.getElementById("skip").addEventListener("click", () => main.focus());
  document.getElementById("rights").addEventListener("click", switchRights);
}

function summary() {
  const counts = [0, 0, 0, 0];
  for (const view of agents.values()) counts[group(view)] += 1;
  const here = counts[0] + counts[1] + counts[2];
  fill(
    document.getElementById("summary"),
    store.loaded
      ? [here + (here === 1 ? " agent" : " agents"), counts[0] ? h("strong", { class: "needs" }, " \u00b7 " + counts[0] + (counts[0] === 1 ? " needs you" : " need you")) : "", counts[1] ? " \u00b7 " + counts[1] + " working" : ""]
      : "",
  );
  // Notices by baton itself mostly repeat what the page shows anyway.
  const waits = store.approvals.length + store.inbox.filter((message) => message.state === "queued" && message.from !== "baton").length;
  const badge = nav.querySelector("a[data-view=inbox] .badge");
  badge.hidden = waits === 0;
  badge.textContent = waits;
  badge.setAttribute("aria-label", waits + " waiting");
  title();
}

const LINK = { live: ["", "live"], lost: ["no connection to the daemon; trying again", "lost"] };

function link() {
  const [words, kind] = LINK[store.link] ?? ["", ""];
  const node = document.getElementById("link");
  node.className = kind;
  fill(node, words);
}

function rights() {
  const node = document.getElementById("rights");
  node.hidden = false;
  node.className = store.mayChange ? "changes" : "quiet";
  fill(node, store.mayChange ? "may change things" : "read-only");
  node.title = store.mayChange ? "This page may answer, send, rotate, retire and start. Click to make it read-only." : "Answers and orders need a code. Click to type it.";
}

let asking = false;

/** Asks for a code until one is accepted. Text typed on the page stays, below the question. */
async function askForCode(words) {
  if (asking) return;
  asking = true;
  while (!isLoggedIn()) {
    await open("Log in", (close) => {
      const field = h("input", { id: "code", autocomplete: "off", spellcheck: "false", required: true, placeholder: "address or code" });
      const why = h("p", { class: "bad", role: "alert" }, words ?? "");
      // Another tab may log in meanwhile.
      addEventListener("baton-login", () => close(true), { once: true });
      const submit = async (event) => {
        event.preventDefault();
        try {
          await login(/#code=([0-9a-f]+)/.exec(field.value)?.[1] ?? field.value.trim());
        } catch (error) {
          fill(why, error.message);
          field.select();
        }
      };
      return h(
        "form",
        { class: "login", on: { submit } },
        h("p", null, "Run ", h("code", null, "baton page"), " in a terminal: it opens this page with a code that works once. Or paste what ", h("code", null, "baton page --print"), " prints."),
        h("label", { for: "code" }, "Address or code"),
        field,
        why,
        h("footer", null, h("button", { class: "primary" }, "Log in")),
      );
    });
  }
  asking = false;
}

const KEYS = [
  ["1 \u2026 5", "Now, Tasks, Search, Inbox, Health"],
  ["/", "search"],
  ["j k", "the next card, the one before"],
  ["Enter", "open it"],
  ["a A d", "allow once, allow for the session, deny: what the card asks for"],
  ["Esc", "close a dialog, or go back to all agents"],
  ["?", "these keys"],
];

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  const isTyping = event.target instanceof Element && event.target.closest("input, textarea, select");
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const cards = [...main.querySelectorAll(".card h3 a, .stack > .panel, .task h2 a, .result h2, .letter")];
  const step = (by) => {
    const isAt = cards.findIndex((card) => card === document.activeElement || card.contains(document.activeElement) || card.closest(".card")?.contains(document.activeElement));
    const next = cards[Math.max(0, Math.min(cards.length - 1, isAt + by))];
    if (!next) return;
    if (!next.matches("a, button")) next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const act = {
    1: () => (location.hash = "#/now"),
    2: () => (location.hash = "#/tasks"),
    3: () => (location.hash = "#/search"),
    4: () => (location.hash = "#/inbox"),
    5: () => (location.hash = "#/health"),
    "/": () => (location.hash = "#/search"),
    j: () => step(1),
    k: () => step(-1),
    "?": () => open("Keys", () => h("dl", { class: "keys" }, KEYS.map(([key, words]) => [h("dt", null, key), h("dd", null, words)]))),
    Escape: () => (place().view === "now" ? null : (location.hash = "#/now")),
  }[event.key];
  if (act) {
    event.preventDefault();
    act();
    return;
  }
  // The answers of the card that has the focus, or of the only one.
  const answers = [...main.querySelectorAll("[data-key='" + CSS.escape(event.key) + "']")];
  const near = document.activeElement?.closest(".card, .request, .panel");
  const target = answers.find((node) => near?.contains(node)) ?? (answers.length === 1 ? answers[0] : null);
  if (target) {
    event.preventDefault();
    target.click();
  }
}

async function begin() {
  frame();
  const code = /^#code=([0-9a-f]+)$/.exec(location.hash)?.[1];
  let words = null;
  if (code) {
    // The code works once, so keep it out of the browser history.
    history.replaceState(null, "", sessionStorage.getItem("baton.place") ?? "#/now");
    try {
      await login(code);
    } catch (error) {
      words = error.message;
    }
  } else {
    await askTabs();
  }
  addEventListener("baton-logout", () => askForCode("The daemon does not know this page any more: it was started anew, or twelve hours have passed. What you typed is still here."));
  addEventListener("baton-login", () => {
    readRights();
  });
  addEventListener("hashchange", route);
  addEventListener("keydown", keys);
  subscribe(({ kinds }) => {
    if (kinds.has("agents") || kinds.has("agent") || kinds.has("approvals") || kinds.has("inbox")) summary();
    if (kinds.has("link")) link();
    if (kinds.has("rights")) rights();
  });
  setInterval(() => tick(document), 5000);
  follow(sink);
  route();
  summary();
  if (isLoggedIn()) readRights();
  else askForCode(words);
}

begin();
